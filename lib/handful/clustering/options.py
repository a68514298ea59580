"""Options of `VCGMM` that belong together: how it seeds, and how it ascends the bound."""

from sklearn.base import BaseEstimator

from handful.checks import check_integer

PRINTED = dict(start="random", moves=None, grow=False, stopping="relative")


def check_choices(options, choices):
    """ValueError unless each of the attributes of `options` that `choices` names has one of the values given there."""
    for name, allowed in choices.items():
        if getattr(options, name) not in allowed:
            raise ValueError(f"{name} must be one of {allowed}, got {getattr(options, name)!r}.")


class AFKMC2(BaseEstimator):
    """Seeding by AFK-MC2 (Bachem, Lucic, Hassani and Krause 2016), as in the paper; see `seeding.afkmc2`.

    Parameters
    ----------
    chain_length : int, m, candidates for each seed: more follow k-means++ more closely and take longer
    """

    def __init__(self, chain_length=2):
        self.chain_length = chain_length

    def check(self):
        check_integer("chain_length", self.chain_length)


class TruncatedEM(BaseEstimator):
    """How `VCGMM` ascends the bound. The defaults are ours; ``TruncatedEM(**PRINTED)`` is the paper's Algorithm 1.

    Parameters
    ----------
    n_random : int, random clusters that join each search; the paper adds one where G is 3
    n_warmup : int, E-steps that improve the search sets and neighbourhoods before the first M-step; the first variance
        follows from the last of them (supplement F of the paper: 4 on its RNA data, 5 on Tiny Images, else none)
    start : "random" lets each point begin at random clusters, as the paper does: the first variance is then large,
        which acts as a kind of annealing and loses good seeds; "nearest" lets it begin at its nearest seed; "auto" is
        "random" for seeds by AFK-MC2 and "nearest" for all others
    moves : how the fit leaves a local optimum. "split" waits until the bound has settled. Then it takes clusters whose
        loss would lower the bound least, and moves them to where cutting another cluster in two raises it most, as long
        as the bound rises on balance. "empty" moves clusters that have lost all points to where the fit is worst. None
        moves nothing, as in the paper. In a `partial_fit`, "split" does what "empty" does: rows of earlier calls cannot
        be cut.
    grow : bool, begin with a lightweight coreset of 16 rows for each cluster and go on with four times as many, until
        all rows (or all of the coreset) take part: most iterations are then on few rows. The paper has one phase.
    stopping : what `tol` measures. "per point": nats a point and dimension, whatever the units of X; "relative": the
        share of the bound, as in the paper

    Examples
    --------
    >>> from handful.clustering import PRINTED, VCGMM
    >>> VCGMM(25, init="afkmc2", algorithm=TruncatedEM(**PRINTED, n_random=1)).get_params()["algorithm__n_random"]
    1
    """

    def __init__(self, *, n_random=0, n_warmup=0, start="auto", moves="split", grow=True, stopping="per point"):
        self.n_random = n_random
        self.n_warmup = n_warmup
        self.start = start
        self.moves = moves
        self.grow = grow
        self.stopping = stopping

    def check(self):
        """ValueError for an option that is not listed above."""
        check_integer("n_random", self.n_random, least=0)
        check_integer("n_warmup", self.n_warmup, least=0)
        choices = {
            "start": ("auto", "random", "nearest"),
            "moves": (None, "empty", "split"),
            "grow": (False, True),
            "stopping": ("per point", "relative"),
        }
        check_choices(self, choices)


INITS = ("afkmc2", "greedy", "k-means++")
ALGORITHMS = {"fast": TruncatedEM(), "paper": TruncatedEM(**PRINTED)}


def checked_init(init):
    """`init`, with an `AFKMC2` for its name; ValueError for another name or bad options."""
    if isinstance(init, (str, bytes)) and init not in INITS:
        raise ValueError(f"init must be one of {INITS}, an AFKMC2(...) or an array of centres, got {init!r}.")
    if isinstance(init, str) and init == "afkmc2":
        return AFKMC2()
    if isinstance(init, AFKMC2):
        init.check()
    return init


def checked_algorithm(algorithm):
    """The `TruncatedEM` that `algorithm` is or names; ValueError for another name or bad options."""
    if isinstance(algorithm, str) and algorithm in ALGORITHMS:
        return ALGORITHMS[algorithm]
    if not isinstance(algorithm, TruncatedEM):
        raise ValueError(f"algorithm must be one of {tuple(ALGORITHMS)} or a TruncatedEM(...), got {algorithm!r}.")
    algorithm.check()
    return algorithm
