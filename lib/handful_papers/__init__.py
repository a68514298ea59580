"""The reproduction of the papers: one room for each of them, and the machinery that runs, judges and reports.

Importing this package needs no more than the library itself; what draws, runs notebooks or renders the report is
imported where it is used.
"""

from handful_papers.claims import Evidence
from handful_papers.published import published
from handful_papers.record import Experiment
from handful_papers.verdicts import Summary, paired_differences

__all__ = [
    "Evidence",
    "Experiment",
    "Summary",
    "paired_differences",
    "published",
]
