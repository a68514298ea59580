"""Matched rows, whose weighted log-likelihoods equal those of all rows where it counts, and their
check."""

from handful.lazy import lazy_names
from handful.matching.from_models import from_log_lik, from_numpyro, from_pymc
from handful.matching.importance_check import DrawsReport, check_log_weights
from handful.matching.matched_coreset import MatchedCoreset
from handful.matching.recombine import recombine

__all__ = [
    "DrawsReport",
    "MatchedCoreset",
    "check_log_weights",
    "from_log_lik",
    "from_numpyro",
    "from_pymc",
    "recombine",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {},
    moved={
        "Check": "handful.matching.DrawsReport",
        "Poisson": "handful.models.Poisson",
        "judge": "handful.matching.check_log_weights",
    },
)
