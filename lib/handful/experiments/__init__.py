"""Running the papers' experiments: results and claims, figure style, the notebook runner, the report.

Importing this package needs no more than the library itself; what draws, runs notebooks or renders
the report comes with ``pip install "handful[reproduce]"`` and is imported where it is used.
"""

from handful.experiments.published import published, published_value
from handful.experiments.results import PROFILES, Experiment
from handful.experiments.style import METHODS, method_style, register_method
from handful.experiments.verdicts import (
    VERDICTS,
    Verdict,
    judge,
    mean_sd,
    paired_differences,
    verdict,
    verdict_everywhere,
    verdict_near,
)

__all__ = [
    "METHODS",
    "PROFILES",
    "VERDICTS",
    "Experiment",
    "Verdict",
    "judge",
    "mean_sd",
    "method_style",
    "paired_differences",
    "published",
    "published_value",
    "register_method",
    "verdict",
    "verdict_everywhere",
    "verdict_near",
]
