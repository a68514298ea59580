"""Why no parameters of a model are possible, in words: gaps in its data, observations that its
distributions rule out, priors that are no densities."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Term:
    """A part of a model's log density at some parameters.

    Attributes
    ----------
    name : in words
    values : log-probabilities, the rows first, or of any shape where there are no rows
    has_rows : whether there is an entry for each row
    observed : what is observed, of the same first axis; None of what is not
    """

    name: str
    values: np.ndarray
    has_rows: bool
    observed: np.ndarray | None = None


def gaps(data, n, rows):
    """What data sets hold that is no finite number in some of the rows of which there are n, in
    words; nothing where there is no such entry.

    Parameters
    ----------
    data : dict, arrays by what they are called
    n : int
    rows : bool (n,)
    """
    said = []
    for name, values in data.items():
        values = np.asarray(values)
        if values.dtype.kind not in "fc" or values.size == 0:
            continue
        gone = ~np.isfinite(values.reshape(len(values), -1)).all(1)
        told = np.flatnonzero(gone & rows) if len(values) == n else np.flatnonzero(gone)
        if not len(told):
            continue
        kind = "NaN" if np.isnan(values[told]).any() else "inf"
        said.append(
            f"{name} holds {kind} in {np.count_nonzero(gone)} of {len(values)} rows, the first of "
            f"which is row {told[0]}"
        )
    return ", and ".join(said)


def never_finite(tried):
    """Of lists of `Term`s at several parameters, those that are finite at none: the last `Term`,
    and where it is not, bool."""
    found = []
    for terms in zip(*tried):
        finite = np.any([np.isfinite(term.values) for term in terms], axis=0)
        if not finite.all():
            found.append((terms[-1], ~finite))
    return found


def impossible(tried, data, n, masking):
    """Why a model has no density at any of some parameters, in words.

    Parameters
    ----------
    tried : a list of `Term`s for each of the parameters
    data : dict, the arrays of the model by what they are called
    n : int, rows
    masking : str, what keeps a row that has a gap
    """
    found = never_finite(tried)
    rows = np.zeros(n, bool)
    for term, never in found:
        if term.has_rows:
            rows |= never.reshape(n, -1).any(1)
    if not found:
        # A log-likelihood may be finite of a row that has no slope, such as one that holds inf.
        rows[:] = True
    said = gaps(data, n, rows)
    if said:
        return f"{said}: leave such rows out, or fill them in; {masking}."
    for term, never in found:
        if not term.has_rows:
            return f"the log density of {term.name} is not finite: look at what it is made of."
        where = np.flatnonzero(never.reshape(n, -1).any(1))
        observed = ""
        if term.observed is not None:
            entry = np.asarray(term.observed)[where[0]]
            observed = f", which observes {entry.tolist()}"
        return (
            f"the log-likelihood of {term.name} is not finite in {len(where)} of {n} rows at any "
            f"parameters that were tried, the first of which is row {where[0]}{observed}: leave "
            "out what its distribution does not allow, or take a distribution that does."
        )
    return (
        "the density of the model is not finite near its unconstrained parameters of zero, though "
        "that of each row is at some: scale the columns of the data, or narrow the priors."
    )
