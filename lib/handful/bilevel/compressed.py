"""Compress, then choose: a choice from rows in blocks, whose outer loss is that of a few rows which
stand for all."""

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from sklearn.base import clone

from handful.blocks import uniform_rows
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
        n_present, mass, _ = zip(*blocks.map(census))
        check_size(selector.size, sum(n_present), blocks.n)
        n_sample = max(n_candidates, max(blocks.lengths))
        sample = uniform_rows(blocks, n_sample, rng, np.array(n_present))
        few = None
        is_dense = not sparse.issparse(sample.X)
        if isinstance(problem, LinearProblem) and is_dense and np.ndim(sample.y) == 1:
            few = MatchedCoreset(problem).stand_in(blocks)
        chooser = clone(selector).set_params(random_state=rng)
        if few is None:
            return _chosen(chooser, sample, sum(mass))
        candidates = sample.take(np.arange(min(n_candidates, len(sample))))
        # Of a rare class the sample may hold no row.
        known = candidates.y if equal and problem.classifies else []
        new = ~np.isin(few.ids, candidates.ids) & ~np.isin(few.y, known)
        if not equal or problem.classifies:
            more = few.take(np.flatnonzero(new))
            candidates = joined([candidates, replace(more, weight=np.ones(len(more)))])
        chooser.set_params(outer="validation")
        return _chosen(chooser, candidates, sum(mass), validation=(few.X, few.y, few.weight))


def _chosen(chooser, candidates, total, **options):
    """What a selector chooses from candidates that stand for rows of a total weight."""
    weight = candidates.weight * (total / candidates.weight.sum())
    chooser._fit_rows(candidates.X, candidates.y, weight, **options)
    return candidates.ids[chooser.indices_], chooser.weights_
