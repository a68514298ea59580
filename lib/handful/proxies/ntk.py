"""Neural tangent kernels of infinitely wide dense networks (Jacot et al. 2018), in the NTK parameterisation."""

import numpy as np
from numba import njit, prange

from handful.checks import check_integer, check_number
from handful.proxies.arccos import FAST, relu_layer
from handful.proxies.kernels import Kernel


@njit(parallel=True, fastmath=FAST, error_model="numpy", cache=True)
def relu_pairs(s, t, variance_x, variance_y):
    """Pass covariances and tangent kernels of all pairs through a ReLU, in place; shape (n, m)."""
    scale_y, inverse_y = np.sqrt(variance_y), np.zeros_like(variance_y)
    for j in range(len(scale_y)):
        if scale_y[j] > 0:
            inverse_y[j] = s.dtype.type(1) / scale_y[j]
    for i in prange(len(s)):
        root = np.sqrt(variance_x[i])
        scale_x = np.full_like(scale_y, root)
        inverse_x = np.full_like(scale_y, s.dtype.type(1) / root if root > 0 else s.dtype.type(0))
        relu_layer(s[i], t[i], scale_x, scale_y, inverse_x, inverse_y)


def dense_layers(s, t, variance_x, variance_y, hidden, w_var, b_var):
    """The tangent kernel after `hidden` times (dense, ReLU) and a dense output; changes `s` and `t`.

    Parameters
    ----------
    s, t : covariances and tangent kernel that come in, shape (n, m)
    variance_x, variance_y : shapes (n,) and (m,)
    hidden : int, at least 0
    """
    for _ in range(hidden):
        s *= w_var
        s += b_var
        t *= w_var
        t += s
        variance_x, variance_y = w_var * variance_x + b_var, w_var * variance_y + b_var
        relu_pairs(s, t, variance_x, variance_y)
        variance_x, variance_y = variance_x / 2, variance_y / 2
    s += t
    s *= w_var
    s += b_var
    return s


class TangentKernel(Kernel):
    """Base class: a network whose layers all have the same scales of weights and biases."""

    def check(self):
        """ValueError if a hyper-parameter is out of range."""
        check_number("w_std", self.w_std, of=self, above=0)
        check_number("b_std", self.b_std, of=self, least=0)

    def _variances(self, dtype):
        return dtype.type(self.w_std**2), dtype.type(self.b_std**2)


class NTK(TangentKernel):
    """Neural tangent kernel of a fully connected network with infinitely wide hidden layers of ReLUs.

    The paper's proxy of the network with two hidden layers of 100 (Section 5.3, permuted MNIST): two hidden layers,
    weights of standard deviation 1 over the root of the fan-in, biases of .05.

    Parameters
    ----------
    hidden : int, hidden layers; 0 makes it the kernel of a linear model
    w_std, b_std : standard deviations of weights (times the root of the fan-in) and of biases

    Notes
    -----
    float32 rows are several times faster than float64 ones, and as precise unless two rows nearly coincide.

    Examples
    --------
    >>> import numpy as np
    >>> from handful.proxies import NTK
    >>> NTK(1, b_std=0.0)(np.eye(2)).round(4)
    array([[0.5   , 0.0796],
           [0.0796, 0.5   ]])
    """

    def __init__(self, hidden=2, *, w_std=1.0, b_std=0.05):
        self.hidden = hidden
        self.w_std = w_std
        self.b_std = b_std

    def check(self):
        """ValueError if a hyper-parameter is out of range."""
        super().check()
        check_integer("hidden", self.hidden, of=self, least=0)

    def _matrix(self, X, Y):
        w_var, b_var = self._variances(X.dtype)
        width = X.dtype.type(X.shape[1])
        s = X @ Y.T / width
        variance_x, variance_y = (np.einsum("ij,ij->i", A, A) / width for A in (X, Y))
        return dense_layers(s, np.zeros_like(s), variance_x, variance_y, self.hidden, w_var, b_var)

    def _diagonal(self, X):
        w_var, b_var = (float(v) for v in self._variances(X.dtype))
        s, t = np.einsum("ij,ij->i", X, X) / X.shape[1], 0.0
        for _ in range(self.hidden):
            s = w_var * s + b_var
            t = (s + w_var * t) / 2
            s = s / 2
        return (w_var * (s + t) + b_var).astype(X.dtype)
