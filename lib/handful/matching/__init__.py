"""Exact handfuls: rows whose weighted log-likelihoods equal those of all rows where it counts, and
their check."""

from handful.lazy import renamed_names
from handful.matching.from_models import from_log_lik, from_numpyro, from_pymc
from handful.matching.importance_check import DrawsReport, check_log_weights
from handful.matching.matched_coreset import MatchedCoreset
from handful.matching.recombine import recombine
from handful.models import Poisson

__all__ = [
    "DrawsReport",
    "MatchedCoreset",
    "Poisson",
    "check_log_weights",
    "from_log_lik",
    "from_numpyro",
    "from_pymc",
    "recombine",
]

# Names of the release before, for one more.
__getattr__ = renamed_names(__name__, {"Check": "DrawsReport", "judge": "check_log_weights"})
