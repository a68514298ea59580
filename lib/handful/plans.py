"""How a selector chooses from rows in blocks, of which it never sees all at once.

A selector names its plan in `_plan`. There are three: each block draws its share (`DrawShares`);
some rows of each block are chosen, and again among those (`ChooseAgain`); all rows are compressed
to a few that stand for them, and these are chosen from (`Compress`). What reads its rows in passes
over blocks anyway has a plan of its own.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from handful.blocks import Blocks, uniform_rows
from handful.checks import MAX_SEED, check_size, check_some_count
from handful.parts import choose, class_totals, of_one_class, reduced, united
from handful.rows import joined
from handful.running import warn
from handful.tables import take_rows

# A block has at least so many rows for each row that is chosen from it.
PER_ROW = 4
# From a block that holds one class, so many times `size` rows are drawn, as any of them may matter.
OF_ONE_CLASS = 10
# Blocks are joined up to so many entries: 1 GiB of float64.
MOST_ENTRIES = 1 << 27


@dataclass(frozen=True)
class Plan:
    """Base class of the plans.

    Parameters
    ----------
    rows_per_column : the fewest rows of a block for each column
    """

    rows_per_column: int = 4

    def select(self, selector: Any, blocks: Any, rng: Any) -> Any:
        """What a selector chooses from `blocks`: ``(indices, weights)``."""
        raise NotImplementedError

    def rows_per_block(self, selector, blocks):
        """How many rows neighbouring blocks are joined to."""
        wanted = max(PER_ROW * selector.size, self.rows_per_column * blocks.d)
        most = max(1, blocks.n * MOST_ENTRIES // max(1, blocks.n_entries))
        if most < wanted < blocks.n:
            warn(
                f"blocks hold {most:,} rows, fewer than the {wanted:,} that a choice of "
                f"size={selector.size} of {blocks.d:,} columns wants, as more would need over a "
                "gigabyte; lower size, or give fewer columns.",
            )
        return min(wanted, most)


@dataclass(frozen=True)
class DrawShares(Plan):
    """Each block draws its share of `size`, for draws whose weights estimate every sum."""

    def select(self, selector, blocks, rng):
        """As `Plan.select`."""
        seed = int(rng.integers(MAX_SEED))
        n_present, mass, totals = zip(*blocks.map(census))
        mass = np.array(mass)
        check_some_count(mass.any(), blocks.n)
        check_size(selector.size, sum(n_present), blocks.n, repeats=selector._repeats)
        most = np.inf if selector._repeats else np.array(n_present)
        due = inclusion_probabilities(mass, selector.size, most)
        # Each block draws a whole number next to what is due, and on average that.
        drawn = np.diff(np.floor(np.cumsum(due) + rng.random()), prepend=0)
        drawn = np.minimum(drawn, most)
        own = [(int(k), k / share) if k else None for k, share in zip(drawn, due)]
        union = joined(blocks.map(_share_of_block, clone(selector), seed, own=own))
        selector._tell_lost(united(totals), class_totals(union.y, union.weight))
        return union.ids, union.weight


@dataclass(frozen=True)
class ChooseAgain(Plan):
    """`size` rows of each block, and `size` of all that were chosen; weights multiply.

    The rows chosen from a block stand for it by their weights, so the second choice is among rows
    that stand for the whole. A draw whose rounding would add up over many small shares is made so,
    too. Rows that are weighted for the model of a block stand for nothing else: a selector that
    trains a model compresses.

    Parameters
    ----------
    in_a_block : options that the selector has where it chooses from a block
    """

    in_a_block: dict = field(default_factory=dict)

    def select(self, selector, blocks, rng):
        """As `Plan.select`."""
        seed = int(rng.integers(MAX_SEED))
        chooser = clone(selector).set_params(**self.in_a_block)
        n_present, totals, chosen = zip(*blocks.map(_chosen_of_block, chooser, seed))
        check_some_count(any(n_present), blocks.n)
        check_size(selector.size, sum(n_present), blocks.n, repeats=selector._repeats)
        union = joined([block for block in chosen if len(block)])
        # Where optimised weights are zero there may be fewer than wanted.
        if len(union) <= selector.size:
            return union.ids, union.weight
        rows = Blocks(union.X, union.y, union.weight)
        if not selector._draws or selector._of_a_part:
            selector._fit_blocks(rows)
            return union.ids[selector.indices_], selector.weights_
        # A class that a draw lost is told of with its share of all rows, not of those of the union.
        selector._of_a_part = True
        try:
            selector._fit_blocks(rows)
        finally:
            vars(selector).pop("_of_a_part", None)
        drawn = class_totals(take_rows(union.y, selector.indices_), selector.weights_)
        selector._tell_lost(united(totals), drawn)
        return union.ids[selector.indices_], selector.weights_


@dataclass(frozen=True)
class Compress(Plan):
    """All rows are compressed to a few that stand for them, and these are chosen from: a uniform
    sample, as large as the largest block."""

    def select(self, selector, blocks, rng):
        """As `Plan.select`."""
        # What is not drawn is checked, too.
        n_present = np.array(blocks.map(_n_checked, clone(selector)))
        union = uniform_rows(blocks, max(blocks.lengths), rng, n_present)
        selector._fit_rows(union.X, union.y, union.weight)
        return union.ids[selector.indices_], selector.weights_


def inclusion_probabilities(weights, size, most=1.0):
    """Shares of `size` in proportion to weights, each at most `most`, that add up to `size`: shape
    (n,).

    Parameters
    ----------
    weights : non-negative float array, shape (n,)
    size : int, at most the sum of `most` over the positive weights
    most : float, or array of shape (n,); with 1 the shares are the probabilities with which each of
        n rows is among `size` rows
    """
    found = size * (weights / weights.sum())
    is_full = np.zeros(len(weights), dtype=bool)
    while (found > most).any():
        is_full |= found >= most
        rest = np.where(is_full, 0.0, weights)
        left = size - np.where(is_full, most, 0.0).sum()
        of_rest = left * rest / rest.sum() if left > 0 else 0.0
        found = np.where(is_full, most, of_rest)
    return found


def census(block):
    """Of a block: how many rows count, their weight, and that of each class."""
    return (
        np.count_nonzero(block.weight),
        float(block.weight.sum()),
        class_totals(block.y, block.weight),
    )


def _n_checked(block, selector):
    block = block.of_positive_weight()
    if len(block):
        selector._check_part(block.X, block.y)
    return len(block)


def _share_of_block(block, selector, seed, own):
    size, scale = own
    rng = np.random.default_rng([seed, int(block.ids[0])])
    block = block.of_positive_weight()
    # A selector of its own: the threads of dask share the one that is given.
    selector = clone(selector).set_params(size=size, random_state=rng)
    chosen, weights = choose(selector, block.X, block.y, block.weight, rng)
    return replace(block.take(chosen), weight=weights * scale)


def _chosen_of_block(block, selector, seed):
    block = block.of_positive_weight()
    size = selector.size
    n_present = len(block)
    totals = class_totals(block.y, block.weight) if selector._draws else None
    if selector._accepts.y == "two classes" and of_one_class(block.y, None):
        size *= OF_ONE_CLASS
    if n_present > size:
        block = reduced([block], selector, size, np.random.default_rng([seed, int(block.ids[0])]))
        # Optimised weights may be 0.
        block = block.of_positive_weight()
    return n_present, totals, block
