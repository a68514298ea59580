"""Compress, then choose: a choice from rows in blocks, or from many in memory, whose outer loss is
that of a few rows which stand for all."""

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from sklearn.base import clone

from handful.blocks import Blocks, uniform_rows
from handful.checks import check_size
from handful.matching import MatchedCoreset
from handful.models.linear import LinearProblem
from handful.options import current_word
from handful.plans import Compress, census
from handful.rows import joined

# Rows of a uniform sample that may be chosen, and for each row that is chosen so many.
N_CANDIDATES = 4000
PER_ROW = 10
# With equal weights there is less to make up with, and more rows are looked at.
N_EQUAL = 20_000


@dataclass(frozen=True)
class CompressLinear(Compress):
    """All rows are compressed to a few that stand for them as the outer loss of a linear problem.

    Their log-likelihoods, and gradients, add up to those of all rows along the paths of penalties,
    whatever the blocks (`MatchedCoreset.stand_in`). Candidates are a uniform sample and, where
    weights are optimised, the few rows themselves. Where nothing can be matched (problems that are
    not linear, sparse rows, soft targets, and more sums than pay) the uniform sample is all that is
    looked at.
    """

    def select(self, selector, blocks, rng):
        """As `Plan.select`."""
        problem = selector._problem()
        equal = current_word(selector.weighting) == "equal"
        n_candidates = max(N_EQUAL if equal else N_CANDIDATES, PER_ROW * selector.size)
        chooser = clone(selector).set_params(random_state=rng)
        found = None
        one = blocks.take([0])
        is_plain = not sparse.issparse(one.X) and np.ndim(one.y) == 1
        if isinstance(problem, LinearProblem) and is_plain:
            found = MatchedCoreset(problem).stand_in(blocks, n_candidates, rng)
        if found is None:
            n_present, mass, _ = zip(*blocks.map(census))
            check_size(selector.size, sum(n_present), blocks.n)
            n_sample = max(n_candidates, max(blocks.lengths))
            sample = uniform_rows(blocks, n_sample, rng, np.array(n_present))
            return _chosen(selector, chooser, sample, sum(mass))
        few, candidates = found
        # All that count are candidates where they are fewer than `size`.
        check_size(selector.size, len(candidates), blocks.n)
        wanted = np.ones(len(few), dtype=bool)
        if equal:
            # Of a rare class the sample may hold no row.
            wanted = problem.classifies & ~np.isin(few.y, candidates.y)
        return _from_both(selector, chooser, candidates, few, wanted)

    def in_memory(self, selector, X, y, sample_weight, rng):
        """As `select`, of rows in memory; None where nothing can be matched."""
        if sparse.issparse(X) or np.ndim(y) != 1:
            return None
        blocks = Blocks(X, y, sample_weight, rows=len(y))
        n_candidates = max(N_CANDIDATES, PER_ROW * selector.size)
        found = MatchedCoreset(selector._problem()).stand_in(blocks, n_candidates, rng)
        if found is None:
            return None
        few, candidates = found
        chooser = clone(selector).set_params(random_state=rng)
        # Whoever gave the rows has heard of their scales.
        chooser._of_a_part = True
        return _from_both(selector, chooser, candidates, few, np.ones(len(few), dtype=bool))


def _from_both(selector, chooser, candidates, few, wanted):
    """What a selector chooses from candidates and those `wanted` of the few rows that stand for
    all."""
    more = few.take(np.flatnonzero(wanted & ~np.isin(few.ids, candidates.ids)))
    candidates = joined([candidates, replace(more, weight=np.ones(len(more)))])
    chooser.set_params(outer="validation")
    validation = few.X, few.y, few.weight
    return _chosen(selector, chooser, candidates, few.weight.sum(), validation=validation)


def _chosen(selector, chooser, candidates, total, **options):
    """What a copy of a selector, the `chooser`, chooses from candidates that stand for rows of a
    total weight; what it found so far if it is interrupted."""
    weight = candidates.weight * (total / candidates.weight.sum())
    try:
        chooser._fit_rows(candidates.X, candidates.y, weight, **options)
    except KeyboardInterrupt:
        if hasattr(chooser, "indices_"):
            selector.indices_ = candidates.ids[chooser.indices_]
            selector.weights_ = chooser.weights_
        raise
    return candidates.ids[chooser.indices_], chooser.weights_
