"""What is trained on the chosen rows: problems, as users name them, and the models that solve
them."""

from handful.models.joint import Joint
from handful.models.linear import LeastSquares, Logistic, Poisson
from handful.models.problem import Problem

__all__ = ["Joint", "LeastSquares", "Logistic", "Poisson", "Problem"]
