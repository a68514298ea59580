"""A NumPyro model as rows: its sites say the log-likelihood of each row, the prior and the
transforms."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import getclosurevars, isfunction, signature
from numbers import Number
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax.flatten_util import ravel_pytree
from jax.tree_util import keystr
from numpyro import handlers
from numpyro.distributions.transforms import biject_to
from numpyro.infer import init_to_uniform
from numpyro.infer.util import constrain_fn, potential_energy
from numpyro.primitives import Messenger
from scipy import sparse

from handful.matching.differences import evenly
from handful.matching.model_faults import Term
from handful.matching.model_rows import WrittenModel

# Parameters that are handled at once, and rows, of few and of many: each such shape is compiled,
# which takes seconds.
AT_ONCE = 32
FEW_ROWS = 256
MANY_ROWS = 4096
# Rows on which the model is tried, to see which shapes follow their number.
FEW = 5
# Two log densities are the same up to this share.
SAME = 1e-9
# So far products of single precision may differ by the number of rows that are multiplied at once.
ROUNDING = 1e-4
# A list of more numbers is rows.
MOST_NUMBERS = 50
# What is said of an argument that is as long as the data by chance.
LOOKED_UP = (
    "Each argument of {n} entries is taken to have one for each row: a table that rows look things "
    "up in needs another length, give it one entry more."
)
# What JAX raises of a model that asks for values while it is built.
OF_VALUES = (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError)


def in_64_bits():
    """A context of double precision, whatever the user's setting is."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    return jax.experimental.enable_x64()


class WeightedSites(Messenger):
    """A model whose sites of some names count by weights, and no others.

    Parameters
    ----------
    fn : the model
    weights : dict of str, an array that broadcasts with the log-probabilities of the site
    """

    def __init__(self, fn: Callable[..., Any], weights: dict[str, np.ndarray]):
        super().__init__(fn)
        self.weights = weights

    def process_message(self, msg):
        """As `Messenger.process_message`: a scale that is there is multiplied, and masks stay."""
        if msg["type"] == "sample" and msg["name"] in self.weights:
            own = self.weights[msg["name"]]
            self._check_length(msg, own)
            msg["scale"] = own if msg["scale"] is None else own * msg["scale"]

    def _check_length(self, msg, own):
        fn = msg["fn"]
        axis = -own.ndim
        shapes = [fn.batch_shape]
        if msg["value"] is not None:
            value = np.shape(msg["value"])
            shapes.append(value[: len(value) - fn.event_dim])
        got = max((shape[axis] for shape in shapes if len(shape) >= own.ndim), default=1)
        if got not in (1, len(own)):
            raise ValueError(
                f"the site {msg['name']!r} has {got} entries for {len(own)} weights: this model is "
                "for the chosen rows, model_(*args_, **kwargs_). On all rows, and for predictions, "
                "take the model that you wrote."
            )


class NumPyroModel(WrittenModel):
    """A NumPyro model on all rows of its arguments.

    Parameters
    ----------
    model : function with NumPyro's primitives
    args, kwargs : its arguments

    Raises
    ------
    ValueError
        for a model whose rows cannot be told apart or weighted, with the reason
    """

    def __init__(self, model: Callable[..., Any], args: tuple, kwargs: dict):
        if not callable(model) or isinstance(model, type):
            raise TypeError(
                "model must be a function that calls numpyro.sample, got "
                f"{getattr(model, '__name__', type(model).__name__)}."
            )
        self.model = model
        flatten = jax.tree_util.tree_flatten_with_path
        pairs, self.tree = flatten((args, kwargs), is_leaf=_is_long_list)
        self.names = [_name_of(model, path) for path, _ in pairs]
        parts, _ = flatten((args, kwargs), is_leaf=lambda value: isinstance(value, list))
        # Lists by their names: short ones may be anything.
        self.lists = {_name_of(model, path): v for path, v in parts if isinstance(v, list)}
        self.leaves = [_plain(leaf) for _, leaf in pairs]
        self.arrays = list(map(_as_rows, self.names, self.leaves))
        n, self.row_axes, shapes = self._rows_of_arguments()
        super().__init__(n, shapes)
        self._compile()
        with in_64_bits():
            anywhere = jax.jit(self._anywhere)
            try:
                flat, self.unravel = ravel_pytree(anywhere())
            except IndexError as error:
                raise ValueError(self._why_it_fails(error, min(FEW, self.n))) from error
        self.p = len(flat)
        self._refuse_what_hangs_on_rows()
        self.find_near(self._negative())
        self._refuse_company()

    # The rows of the arguments --------------------------------------------------------------------

    def taken(self, rows):
        """The arrays that have an entry a row, at rows of these numbers."""
        return [a[rows] for a in self.arrays if self._has_rows(a)]

    def _first(self, count):
        """These arrays at the first rows."""
        return self.taken(np.arange(count))

    def _has_rows(self, array):
        return array is not None and len(array) == self.n

    def _filled(self, rows):
        """All arguments, with these arrays of some rows; a number that counts the rows says so."""
        count = len(rows[0])
        given = iter(rows)
        leaves = []
        for leaf, array in zip(self.leaves, self.arrays):
            if self._has_rows(array):
                leaves.append(next(given))
            elif type(leaf) is int and leaf == self.n:
                leaves.append(count)
            elif isinstance(leaf, np.ndarray):
                # JAX keeps what it made of an array, in the precision of that time, as long as
                # the array lives: the user's own is never handed to it in double precision.
                leaves.append(leaf.view())
            else:
                leaves.append(leaf)
        return jax.tree.unflatten(self.tree, leaves)

    def _rows_of_arguments(self):
        """The number of rows, the axis of each site that has an entry a row, from the last, and the
        shapes of the latent variables."""
        arrays = [array for array in self.arrays if array is not None]
        lengths = sorted({len(array) for array in arrays}, reverse=True)
        refusals = []
        # one row is no choice
        for n in (length for length in lengths if length > 1):
            self.n = n
            try:
                axes, shapes = self._sites_of_rows()
            except ValueError as error:
                # An argument may be longer than the data.
                refusals.append(error)
                continue
            if axes:
                return n, axes, shapes
        if refusals:
            raise refusals[0]
        raise ValueError(
            "no observed or factor site of the model has an entry for each row of an argument, of "
            "two rows or more. Give the data as arguments, arrays with a row for each observation, "
            f"and factors without their sum; the arguments have {lengths or 'no'} rows."
        )

    def _sites_of_rows(self):
        every = self._sites_on(self.n)
        count = min(FEW, self.n - 1)
        few = self._sites_on(count)
        if alone := sorted(set(every) ^ set(few)):
            raise ValueError(
                f"the site {alone[0]!r} is there on all {self.n} rows or on {count} of them, and "
                "not on both: which sites a model has must not hang on the number of rows."
            )
        axes = {}
        shapes = {}
        for name, site in every.items():
            if not site.is_observed:
                shapes[name] = site.shape
            if site.shape == few[name].shape:
                continue
            if not site.is_observed:
                raise ValueError(_of_latent_rows(name, site.shape))
            axes[name] = _row_axis(name, site.shape, few[name].shape, self.n)
        return axes, shapes

    def _sites_on(self, count):
        """The `Site`s of the model on so many rows, by name."""
        found = {}

        def trace(rows):
            sites = self._trace(rows, substitute_fn=init_to_uniform)
            for name, site in sites.items():
                found[name] = Site.of(site)
            return 0.0

        try:
            with in_64_bits():
                jax.eval_shape(trace, self._first(count))
        except Exception as error:
            raise ValueError(self._why_it_fails(error, count)) from error
        for name, site in found.items():
            if site.refused:
                raise ValueError(site.refused.format(name=name))
        return {name: site for name, site in found.items() if site.kind == "sample"}

    def _why_it_fails(self, error, count):
        """What to say of an error of the model on so many rows."""
        said = str(error).strip().partition("\n")[0].rstrip(".")
        # a set of rows, or a key of a dict
        is_hashed = "unhashable" in said and "Tracer" in said
        if isinstance(error, OF_VALUES) or is_hashed:
            return (
                "the model reads values of its rows while it is built, such as the number of "
                "groups: compute them before, and give them as arguments; or values of its latent "
                "variables, in an `if` or by numpy: take jnp.where, and jax.numpy."
            )
        for name, values in self.lists.items():
            if len(values) == self.n:
                return f"{name} is a list of {self.n} entries, and no array: np.asarray({name})."
        if count == self.n:
            shapes = ", ".join(map(_shaped, self.names, self.leaves))
            return (
                f"the model does not run on its arguments, {shapes or 'of which there are none'}: "
                f"{said or type(error).__name__}. It has to run by itself, "
                "numpyro.handlers.seed(model, 0)(...)."
            )
        if isinstance(error, IndexError):
            return (
                f"the model runs on its {self.n} rows, and not on {count} of them ({said}). "
                f"{LOOKED_UP.format(n=self.n)}"
            )
        elsewhere = self._read_elsewhere()
        if elsewhere:
            return (
                f"the model reads {elsewhere}, of all {self.n} rows, from outside of its "
                "arguments, so that it does not run on some of the rows: give it as an argument."
            )
        return (
            f"the model runs on its {self.n} rows, and not on {count} of them: the number of "
            "rows has to come from its arguments, such as len(y), and what has an entry a row has "
            f"to be an argument ({said})."
        )

    def _read_elsewhere(self):
        """Arrays with an entry a row that the model reads from outside, in words, or nothing."""
        model = _innermost(self.model)
        found = getclosurevars(model) if isfunction(model) else None
        around = {**found.globals, **found.nonlocals} if found else {}
        names = [name for name, value in around.items() if _has_length(value, self.n)]
        if names:
            return ", ".join(names)

        def trace(rows):
            sites = self._trace(rows, substitute_fn=init_to_uniform)
            return [_log_prob(site) for site in sites.values() if site["type"] == "sample"]

        with in_64_bits():
            graph = jax.make_jaxpr(trace)(self._first(self.n))
        for value in graph.consts:
            if _has_length(value, self.n):
                return f"an array of shape {np.shape(value)}"
        return ""

    def _trace(self, rows, **values):
        """What NumPyro says of each site, by name, of the model on arrays of some rows."""
        args, kwargs = self._filled(rows)
        seeded = handlers.seed(self.model, 0)
        known = handlers.substitute(seeded, **values)
        with handlers.block():
            return handlers.trace(known).get_trace(*args, **kwargs)

    def _anywhere(self):
        """Unconstrained values of the latent variables, by name."""
        rows = self._any_rows()
        sites = self._trace(rows, substitute_fn=init_to_uniform)
        values = {name: sites[name]["value"] for name in self.shapes}
        return self._inverse(values)

    # Densities ------------------------------------------------------------------------------------

    def _compile(self):
        """Set the compiled functions of parameters and of arrays of rows."""

        def of_rows(theta, rows):
            count = len(rows[0])
            args, kwargs = self._filled(rows)
            values = constrain_fn(self.model_seeded, args, kwargs, self.unravel(theta))
            sites = self._trace(rows, data=values)
            total = jnp.zeros(count)
            for name, axis in self.row_axes.items():
                log_prob = _log_prob(sites[name])
                by_row = jnp.moveaxis(log_prob, axis, 0)
                total += by_row.reshape(count, -1).sum(1)
            return total

        def by_site(values, rows):
            found = {}
            for name, site in self._trace(rows, data=values).items():
                if site["type"] == "sample":
                    found[name] = _log_prob(site), site["value"]
            return found

        def weighted(theta, rows, w):
            return w @ of_rows(theta, rows)

        def prior(theta, rows):
            args, kwargs = self._filled(rows)
            rest = handlers.block(self.model_seeded, hide=list(self.row_axes))
            values = self.unravel(theta)
            return -potential_energy(rest, args, kwargs, values)

        def negative(theta, rows):
            log_likelihood = of_rows(theta, rows).sum()
            return -log_likelihood - prior(theta, rows)

        self.model_seeded = handlers.seed(self.model, 0)
        self._by_site = jax.jit(by_site)
        self._of_rows = _of_many(of_rows, 1)
        self._prior = _of_many(prior, 1)

        def derivatives(f):
            def slope(*args):
                value, found = jax.value_and_grad(f)(*args)
                return found, (value, found)

            def all_three(*args):
                hessian, (value, found) = jax.jacfwd(slope, has_aux=True)(*args)
                return value, found, hessian

            return all_three

        def constrained(theta):
            rows = self._any_rows()
            args, kwargs = self._filled(rows)
            return constrain_fn(self.model_seeded, args, kwargs, self.unravel(theta))

        self._derivatives = jax.jit(derivatives(weighted))
        self._prior_derivatives = jax.jit(derivatives(prior))
        self._prior_slopes = _of_many(jax.grad(prior), 1)
        self._constrained = jax.jit(constrained)
        self._slopes = _of_many(jax.grad(weighted), 2)
        self._of_all = jax.jit(jax.value_and_grad(negative))
        self._inverses = _of_many(lambda draws: ravel_pytree(self._inverse(draws))[0], 0)

    def _inverse(self, draws):
        sites = self._trace(self._any_rows(), data=draws)
        return _unconstrained(sites, draws)

    def of_rows(self, theta, rows):
        """As `WrittenModel.of_rows`."""
        found = [_at_once(self._of_rows, theta, self.taken(part)) for part in _parts(rows)]
        return np.concatenate(found, axis=1)

    def prior(self, theta):
        """As `WrittenModel.prior`."""
        return _at_once(self._prior, theta, self._any_rows())

    def prior_slopes(self, theta):
        """As `WrittenModel.prior_slopes`."""
        return _at_once(self._prior_slopes, theta, self._any_rows())

    def prior_derivatives(self, theta):
        """As `WrittenModel.prior_derivatives`."""
        with in_64_bits():
            found = self._prior_derivatives(theta, self._any_rows())
            return tuple(np.asarray(part) for part in found)

    def _any_rows(self):
        """Arrays of a few rows, of which the prior takes nothing."""
        return self._first(min(FEW, self.n))

    def derivatives_of(self, theta, rows, w):
        """As `WrittenModel.derivatives_of`."""
        with in_64_bits():
            found = [
                self._derivatives(theta, self.taken(some), own)
                for some, own in _whole_parts(rows, w)
            ]
            return tuple(np.sum(part, axis=0) for part in zip(*found))

    def slopes_of(self, theta, rows, w):
        """As `WrittenModel.slopes_of`."""
        found = [
            _at_once(self._slopes, theta, self.taken(some), own)
            for some, own in _whole_parts(rows, w)
        ]
        return np.sum(found, axis=0)

    def _negative(self):
        """Minus the log density of the posterior and its slope, a function of parameters (p,)."""
        rows = self._first(self.n)

        def negative(theta):
            with in_64_bits():
                value, slope = self._of_all(theta, rows)
            return float(value), np.asarray(slope)

        return negative

    masking = (
        "to keep a row with a gap, put a number there and mask its sites: "
        "numpyro.handlers.mask(mask=seen)"
    )

    def terms(self, theta):
        """As `WrittenModel.terms`."""
        with in_64_bits():
            values = self._constrained(theta)
            found = self._by_site(values, self._first(self.n))
        return [self._term(*named) for named in found.items()]

    def _term(self, name, by_entry_and_value):
        by_entry, value = map(np.asarray, by_entry_and_value)
        what = "the prior of" if name in self.shapes else "the site"
        if name not in self.row_axes:
            return Term(f"{what} {name!r}", by_entry, has_rows=False)
        values = np.moveaxis(by_entry, self.row_axes[name], 0)
        shown = value if value.shape == (self.n,) else None
        return Term(f"{what} {name!r}", values, has_rows=True, observed=shown)

    def data(self):
        """As `WrittenModel.data`."""
        arrays = zip(self.names, self.arrays)
        return {f"the argument {name}": array for name, array in arrays if array is not None}

    # Draws and samplers ---------------------------------------------------------------------------

    def unconstrained(self, draws):
        """As `WrittenModel.unconstrained`."""
        with in_64_bits():
            return np.asarray(self._inverses(draws))

    def by_site(self, theta):
        """As `WrittenModel.by_site`."""
        with in_64_bits():
            parts = self.unravel(np.asarray(theta, float))
        return {name: np.asarray(part) for name, part in parts.items()}

    def constrained(self, theta):
        """As `WrittenModel.constrained`."""
        with in_64_bits():
            found = self._constrained(theta)
            return {name: np.asarray(value) for name, value in found.items()}

    def weighted(self, indices, weights, form):
        """As `WrittenModel.weighted`."""
        of_sites = {}
        for name, axis in self.row_axes.items():
            later = [1] * (-axis - 1)
            of_sites[name] = weights.reshape(-1, *later)
        rows = []
        for leaf, array in zip(self.leaves, self.arrays):
            if self._has_rows(array):
                is_jax = isinstance(leaf, jax.Array)
                own = array[indices]
                rows.append(jnp.asarray(own) if is_jax else own)
        args, kwargs = self._filled(rows)
        model = WeightedSites(self.model, of_sites)
        if form is not None:
            model = self._with_form(model, form)
        return model, args, kwargs

    def _with_form(self, model, form):
        """A model that adds a function of its unconstrained parameters to its log density."""

        def model_and_form(*args, **kwargs):
            with handlers.trace() as sites:
                result = model(*args, **kwargs)
            draws = {name: sites[name]["value"] for name in self.shapes}
            theta, _ = ravel_pytree(_unconstrained(sites, draws))
            numpyro.factor("quadratic_form", form(theta, jnp))
            return result

        return model_and_form

    def _refuse_company(self):
        """The log-likelihood of a row is the same alone and beside a few others: where an index
        lies beyond the end of an array, JAX takes the last entry."""
        few = evenly(np.arange(self.n), FEW)
        company = self.of_rows(self.near[None], few)[0]
        alone = [self.of_rows(self.near[None], few[k : k + 1])[0, 0] for k in range(len(few))]
        is_same = np.isclose(company, alone, rtol=ROUNDING, atol=ROUNDING, equal_nan=True)
        if not is_same.all():
            k = np.argmin(is_same)
            raise ValueError(
                f"the log-likelihood of row {few[k]} is {alone[k]:.6g} alone and {company[k]:.6g} "
                "in company of other rows, at the same parameters. It must hang on its own row "
                "only: compute before what comes of all rows, such as a mean, and give it as a "
                f"column. {LOOKED_UP.format(n=self.n)}"
            )

    def _refuse_what_hangs_on_rows(self):
        """Sites without an entry a row are priors, and the same whatever the rows, and however
        many."""
        count = min(FEW, self.n - 1)
        rng = np.random.default_rng(0)
        values = self.constrained(rng.uniform(-1, 1, self.p))
        observed = {}

        @jax.jit
        def together(rows, values):
            sums = {}
            for name, site in self._trace(rows, data=values).items():
                if site["type"] == "sample" and name not in self.row_axes:
                    sums[name] = _log_prob(site).sum()
                    observed[name] = site["is_observed"]
            return sums

        with in_64_bits():
            ends = np.arange(self.n - count, self.n)
            first, *others = (
                together(rows, values)
                for rows in (self._first(count), self.taken(ends), self._first(self.n))
            )
        for name, here in first.items():
            there = [other[name] for other in others]
            # What is impossible here is so whatever the rows.
            if not np.allclose(here, there, rtol=SAME, atol=0, equal_nan=True):
                raise ValueError(_of_rows_together(name, observed[name]))


@dataclass(frozen=True)
class Site:
    """What is asked of a site: its kind, whether it is observed, its shape, and why it is
    refused."""

    kind: str
    is_observed: bool
    shape: tuple[int, ...]
    refused: str

    @staticmethod
    def of(site):
        """That of what NumPyro says of it."""
        kind = site["type"]
        if kind != "sample":
            return Site(kind, False, (), _why_not(site))
        observed = bool(site["is_observed"])
        return Site(
            kind,
            observed,
            np.shape(_log_prob(site) if observed else site["value"]),
            _why_not(site),
        )


def _why_not(site):
    """Why a site cannot be, or nothing."""
    kind = site["type"]
    if kind == "plate":
        size, subsample_size = site["args"]
        if subsample_size is not None and subsample_size != size:
            return (
                "the plate {name!r} takes a subsample: leave subsample_size out, as the rows are "
                "chosen here."
            )
    if kind == "param":
        return "the parameter {name!r} has no prior: make it numpyro.sample."
    if kind == "sample" and not site["is_observed"] and site["fn"].support.is_discrete:
        return (
            "the latent variable {name!r} is discrete: sum it out, for example by "
            "dist.MixtureSameFamily; if it is observed, give it obs=."
        )
    return ""


def _of_rows_together(name, is_observed):
    if is_observed:
        return (
            f"the site {name!r} is one number of all rows together: give it without the sum, an "
            "entry for each row."
        )
    return (
        f"the prior of {name!r} hangs on the rows or on their number: compute what it takes from "
        "them before, and give it as an argument (the number as a float)."
    )


def _row_axis(name, shape, few, n):
    """The axis, from the last, along which a site has its rows."""
    ndim = len(shape)
    differ = [k - ndim for k in range(ndim) if shape[k] != few[k]]
    is_one = len(few) == ndim and len(differ) == 1
    if not is_one or shape[differ[0]] != n:
        raise ValueError(
            f"the site {name!r} of shape {shape} must have one axis of the {n} rows, an entry for "
            "each; a column of shape (n, 1) beside a mean of shape (n,) makes (n, n): give "
            "y.ravel()."
        )
    return differ[0]


def _innermost(model):
    """The function inside of handlers."""
    while hasattr(model, "fn"):
        model = model.fn
    return model


def _name_of(model, path):
    """What an argument is called, or a part of it: of its path in (args, kwargs)."""
    side, first, *rest = path
    if side.idx:
        return first.key + keystr(rest)
    try:
        parameters = list(signature(_innermost(model)).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    name = names[first.idx] if first.idx < len(names) else f"number {first.idx}"
    return name + keystr(rest)


def _is_long_list(value):
    """Whether an argument is rows of numbers in a list, which are no arrays."""
    is_long = isinstance(value, list) and len(value) > MOST_NUMBERS
    return is_long and all(isinstance(entry, Number | list) for entry in value)


def _plain(leaf):
    """An argument, of which a single integer is Python's; a copy of what may be changed later."""
    kind = getattr(getattr(leaf, "dtype", None), "kind", None)
    is_integer = kind in ("i", "u")
    if is_integer and np.shape(leaf) == ():
        return int(leaf)
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf


def _as_rows(name, leaf):
    """An argument as an array, or None where it has no rows."""
    if hasattr(leaf, "iloc"):
        raise TypeError(
            "arguments of a NumPyro model must be arrays, got a "
            f"{type(leaf).__name__}: give {name}.to_numpy()."
        )
    if isinstance(leaf, list):
        raise TypeError(
            "arguments of a NumPyro model must be arrays, got a list of "
            f"{len(leaf)} rows: give np.asarray({name})."
        )
    if sparse.issparse(leaf):
        raise TypeError(
            f"arguments of a NumPyro model must be dense, got {name} sparse of shape "
            f"{leaf.shape}: give {name}.toarray()."
        )
    if np.ndim(leaf) == 0:
        return None
    array = np.asarray(leaf)
    if array.dtype.kind not in "biufc":
        raise TypeError(
            f"the argument {name} must hold numbers, got an array of {array.dtype}: encode words "
            f"as integers, and give {name}.astype(float) of numbers in objects."
        )
    hidden = np.zeros(0)
    if isinstance(leaf, np.ma.MaskedArray):
        hidden = np.ma.getmaskarray(leaf)
    if hidden.any():
        by_row = hidden.reshape(len(array), -1).any(1)
        first = np.flatnonzero(by_row)[0]
        raise ValueError(
            f"the argument {name} hides {np.count_nonzero(hidden)} entries, the first in row "
            f"{first}, and NumPyro reads what is hidden: leave such rows out, or give the mask as "
            "an argument, and numpyro.handlers.mask(mask=seen) around the site."
        )
    return array


def _of_latent_rows(name, shape):
    """What is said of a latent variable that has an entry for each row."""
    if name.endswith("_unobserved"):
        return f"obs_mask makes {name!r} a latent variable of the masked rows: leave these out."
    return (
        f"the latent variable {name!r} of shape {shape} grows with the rows. A latent variable for "
        "each row is not supported: integrate it out, or sample on all rows; if it is observed, "
        "give it obs=."
    )


def _has_length(value, n):
    # A module has a function of this name.
    shape = getattr(value, "shape", None)
    return isinstance(shape, tuple) and shape[:1] == (n,)


def _shaped(name, leaf):
    """An argument with its shape, in words."""
    if hasattr(leaf, "dtype"):
        return f"{name} of shape {tuple(leaf.shape)}"
    return f"{name} = {str(leaf)[:40]}"


def _log_prob(site):
    """Log-probabilities of a site, with its mask and scale."""
    given = (site["intermediates"],) if site["intermediates"] else ()
    found = site["fn"].log_prob(site["value"], *given)
    return found if site["scale"] is None else found * site["scale"]


def _part_size(count):
    # two sizes alone, as JAX compiles each function anew for each
    return MANY_ROWS if count >= MANY_ROWS else FEW_ROWS


def _parts(rows):
    """Numbers of rows in parts, of which the last may have fewer."""
    size = _part_size(len(rows))
    return np.split(rows, range(size, len(rows), size))


def _whole_parts(rows, w):
    """Numbers of rows and their weights in parts of as many each, whose log-likelihoods add up; the
    last part is filled with rows of weight zero."""
    missing = -len(rows) % _part_size(len(rows))
    rows = np.append(rows, np.repeat(rows[-1:], missing))
    w = np.append(w, np.zeros(missing))
    return zip(_parts(rows), _parts(w))


def _at_once(function, theta, *args):
    """A compiled function of AT_ONCE parameters and of `args`, at any number of parameters."""
    found = []
    with in_64_bits():
        for start in range(0, len(theta), AT_ONCE):
            part = theta[start : start + AT_ONCE]
            k = len(part)
            rest = np.repeat(part[-1:], AT_ONCE - k, axis=0)
            filled = np.vstack([part, rest])
            values = np.asarray(function(filled, *args), float)
            found.append(values[:k])
    return np.concatenate(found)


def _of_many(function, n_others):
    """A compiled function of many first arguments, and of so many others that they share."""
    shared = [None] * n_others
    return jax.jit(jax.vmap(function, (0, *shared)))


def _unconstrained(sites, draws):
    """Unconstrained values of draws by name, of what NumPyro says of the sites."""
    found = {}
    for name, value in draws.items():
        transform = biject_to(sites[name]["fn"].support)
        found[name] = transform.inv(value)
    return found
