"""The reproduction of the papers: a subpackage for each of them, and the machinery that runs,
judges and reports.

Importing this package needs no more than the library itself; what draws, runs notebooks or builds
pages is imported where it is used.
"""

from handful_papers.claims import Evidence, Summary
from handful_papers.effects import paired_differences
from handful_papers.experiment import Experiment
from handful_papers.published import published

__all__ = ["Evidence", "Experiment", "Summary", "paired_differences", "published"]
