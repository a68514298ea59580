"""Bilevel coresets (Borsos, Mutný, Tagliasacchi and Krause, JMLR 2024)."""

from handful.bilevel.joint import Joint
from handful.bilevel.problems import LeastSquares, Logistic, Problem
from handful.bilevel.selector import BilevelCoreset

__all__ = ["BilevelCoreset", "Joint", "LeastSquares", "Logistic", "Problem"]
