"""What is trained on the chosen rows: problems, as users name them, and the models that solve
them.

`Network` needs torch, which is imported when it is asked for.
"""

from handful.lazy import lazy_names
from handful.models.gaussian_mixture import GaussianMixture
from handful.models.joint import Joint
from handful.models.linear import LeastSquares, Logistic, Poisson
from handful.models.problem import Problem

__all__ = ["GaussianMixture", "Joint", "LeastSquares", "Logistic", "Poisson", "Problem"]

__getattr__, __dir__ = lazy_names(__name__, {"Network": "handful.models.network"})
