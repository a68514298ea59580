"""Bilevel coresets (Borsos, Mutný, Tagliasacchi and Krause, JMLR 2024)."""

from handful.bilevel.design import OptimalDesign
from handful.bilevel.joint import Joint
from handful.bilevel.mixture import GaussianMixture
from handful.bilevel.problems import LeastSquares, Logistic, Problem
from handful.bilevel.selector import BilevelCoreset

__all__ = ["BilevelCoreset", "GaussianMixture", "Joint", "LeastSquares", "Logistic", "OptimalDesign", "Problem"]
