"""Inner problems: the models that will be trained on the coreset."""

from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import type_of_target

from handful.bilevel.passes import LOGISTIC, SQUARED
from handful.coreset import signed_labels


class LinearProblem(BaseEstimator):
    """Mean weighted loss of a linear model plus ``l2 / 2 * |coefficients|^2``.

    With weights that add up to n this is scikit-learn's problem at ``C = 1 / (l2 * n)``
    (`LogisticRegression`) or ``alpha = l2 * n`` (`Ridge`), on the full data and on the coreset alike.
    """

    def __init__(self, l2=1e-2, *, fit_intercept=True, penalise_intercept=False):
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.penalise_intercept = penalise_intercept

    def check(self):
        """ValueError unless l2 is a positive finite number."""
        if not (isinstance(self.l2, Real) and np.isfinite(self.l2) and self.l2 > 0):
            raise ValueError(
                f"l2 must be a positive finite number, got l2={self.l2!r}: without a penalty the inner problem of a "
                "small coreset has no unique solution."
            )

    def variants(self):
        """Problems of trainers one may meet: penalty tenfold off either way, intercept treated the other way."""
        same = dict(fit_intercept=self.fit_intercept, penalise_intercept=self.penalise_intercept)
        problems = [type(self)(self.l2 * factor, **same) for factor in (1, 0.1, 10)]
        if self.fit_intercept:
            problems.append(type(self)(self.l2, penalise_intercept=not self.penalise_intercept))
        return problems

    def _free_intercept(self):
        return self.fit_intercept and not self.penalise_intercept


class Logistic(LinearProblem):
    """Binary logistic regression (Borsos et al. 2024, Section 5.2.2).

    Parameters
    ----------
    l2 : penalty on the coefficients, relative to the mean loss. The paper: .01 as weight decay.
    fit_intercept : whether the model has an intercept
    penalise_intercept : whether the penalty covers it, as in the authors' code. False is scikit-learn's
        `LogisticRegression`. Select with the problem that trains: binary coresets notice the difference.
    """

    kind = LOGISTIC
    two_classes = True

    def encode(self, y):
        """Labels as -1 and +1, in the order of `numpy.unique`; ValueError unless there are two of them."""
        return signed_labels(y, "logistic regression")[1]


class LeastSquares(LinearProblem):
    """Ridge regression: half the squared error as loss (Borsos et al. 2024, Section 3.4.2).

    Parameters
    ----------
    l2, fit_intercept, penalise_intercept : as in `Logistic`
    """

    kind = SQUARED
    two_classes = False

    def encode(self, y):
        """Targets as float64; ValueError for anything that is not numeric."""
        if type_of_target(y) == "unknown" or np.asarray(y).dtype.kind in "OUS":
            try:
                y = np.asarray(y, dtype=np.float64)
            except (TypeError, ValueError):
                raise ValueError(f"LeastSquares needs numeric targets y, got dtype {np.asarray(y).dtype}.") from None
        return np.asarray(y, dtype=np.float64)
