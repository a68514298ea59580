"""Exact handfuls: rows whose weighted log-likelihoods equal those of all rows where it counts, and their check."""

from handful.matching.recombine import recombine
from handful.matching.selector import MatchedCoreset
from handful.matching.verdict import Check, judge
from handful.models import Poisson

__all__ = ["Check", "MatchedCoreset", "Poisson", "judge", "recombine"]
