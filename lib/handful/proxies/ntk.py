"""Neural tangent kernels of infinitely wide dense networks (Jacot et al. 2018), in the NTK
parameterisation."""

import math
from dataclasses import KW_ONLY

import numpy as np

from handful.options import CountOrZero, NonNegative, Positive
from handful.proxies.kernels import Kernel


def through_relu(s, t, q_x, q_y, xp=np):
    """Covariances and tangent kernel after a layer of infinitely many ReLUs (Cho and Saul 2009).

    For Gaussian inputs of variances q_x, q_y and covariance s, at the angle ``a = arccos(s /
    sqrt(q_x q_y))``::

        E[relu relu]   = sqrt(q_x q_y) (sin a + (pi - a) cos a) / (2 pi)
        E[relu' relu'] = (pi - a) / (2 pi)

    and the tangent kernel of what lies below the layer is multiplied by the second.

    Parameters
    ----------
    s, t : covariances and tangent kernel before the layer, arrays of one shape
    q_x, q_y : variances, of shapes that broadcast to it; where one is 0, so is s
    xp : the module of these arrays, numpy or torch
    """
    scale_x = xp.sqrt(q_x)
    scale_y = xp.sqrt(q_y)
    unit_x = scale_x + (scale_x == 0)
    unit_y = scale_y + (scale_y == 0)
    cosine = s / unit_x / unit_y
    # Rounding leaves the cosine of a row with itself a few units short of 1, and arccos turns 1e-7
    # into 5e-4.
    rounding = 5 * xp.finfo(s.dtype).eps
    is_straight = abs(cosine) > 1 - rounding
    cosine = xp.where(is_straight, xp.sign(cosine), cosine)
    turn = 2 * math.pi
    # (pi - a) / (2 pi)
    share = 0.5 - xp.arccos(cosine) / turn
    sine = xp.sqrt((1 - cosine) * (1 + cosine)) / turn
    covariance = (cosine * share + sine) * scale_x * scale_y
    return covariance, t * share


def dense_layers(s, t, q_x, q_y, hidden, w_var, b_var):
    """The tangent kernel after `hidden` times (dense, ReLU) and a dense output.

    Parameters
    ----------
    s, t : covariances and tangent kernel that come in, shape (n, m)
    q_x, q_y : variances, shapes (n,) and (m,); None without hidden layers
    hidden : int, at least 0
    """
    for _ in range(hidden):
        s = w_var * s + b_var
        t = s + w_var * t
        q_x = w_var * q_x + b_var
        q_y = w_var * q_y + b_var
        s, t = through_relu(s, t, q_x[:, None], q_y)
        q_x = q_x / 2
        q_y = q_y / 2
    return w_var * (s + t) + b_var


def dense_selves(s, t, hidden, w_var, b_var):
    """As `dense_layers`, of each row with itself, whose angle is 0: shape (n,)."""
    for _ in range(hidden):
        s = w_var * s + b_var
        t = (s + w_var * t) / 2
        s = s / 2
    return w_var * (s + t) + b_var


class TangentKernel(Kernel):
    """Base class: a network whose layers all have the same scales of weights and biases."""

    _: KW_ONLY
    w_std: Positive = 1.0
    b_std: NonNegative = 0.05

    def _variances(self, dtype):
        return dtype.type(self.w_std**2), dtype.type(self.b_std**2)


class NTK(TangentKernel):
    """Neural tangent kernel of a fully connected network with infinitely wide hidden layers of
    ReLUs.

    The paper's proxy of the network with two hidden layers of 100 (Section 5.3, permuted MNIST):
    two hidden layers, weights of standard deviation 1 over the root of the fan-in, biases of .05.

    Parameters
    ----------
    hidden : int, default=2
        Hidden layers; 0 makes it the kernel of a linear model.
    w_std, b_std : float, default=1.0 and 0.05
        Standard deviations of weights (times the root of the fan-in) and of biases.

    Notes
    -----
    float32 rows are several times faster than float64 ones, and as precise unless two rows nearly
    coincide.

    Examples
    --------
    >>> import numpy as np
    >>> from handful.proxies import NTK
    >>> NTK(1, b_std=0.0)(np.eye(2)).round(4)
    array([[0.5   , 0.0796],
           [0.0796, 0.5   ]])
    """

    hidden: CountOrZero = 2

    def _matrix(self, X, Y):
        w_var, b_var = self._variances(X.dtype)
        width = X.dtype.type(X.shape[1])
        s = X @ Y.T / width
        t = np.zeros_like(s)
        return dense_layers(s, t, _mean_squares(X), _mean_squares(Y), self.hidden, w_var, b_var)

    def _diagonal(self, X):
        w_var, b_var = self._variances(X.dtype)
        return dense_selves(_mean_squares(X), 0, self.hidden, w_var, b_var)


def _mean_squares(X):
    width = X.dtype.type(X.shape[1])
    return np.einsum("ij,ij->i", X, X) / width
