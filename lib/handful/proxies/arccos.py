"""Covariances after a layer of infinitely many ReLUs (Cho and Saul 2009), fast enough for every pair of pixels.

For Gaussian inputs of variances q_x, q_y and covariance s, at the angle ``t = arccos(c)``, ``c = s / sqrt(q_x q_y)``::

    E[relu relu]   = sqrt(q_x q_y) (sin t + (pi - t) c) / (2 pi)
    E[relu' relu'] = (pi - t) / (2 pi)

The tangent kernel of what lies below the layer is multiplied by the second.
"""

import numpy as np
from numba import njit

FAST = {"reassoc", "contract", "nsz", "arcp"}  # let loops be vectorised; NaN and inf keep their meaning

# With x = |c|: arccos(x) = sqrt(1 - x) P(x) and sin t = sqrt(1 - x) sqrt(1 + x), whose second factors are smooth on
# [0, 1]. Chebyshev interpolation there, error below 3e-8; numba's own arccos calls libm once per element.
_P = tuple(np.float32(v) for v in (1.5707963, -0.214598156, 0.0889688532, -0.0501143031))
_P += tuple(np.float32(v) for v in (0.0307221224, -0.0168410524, 0.00649152143, -0.00121173777))
_Q = tuple(np.float32(v) for v in (1.00000003, 0.49999597, -0.12491271, 0.06175806))
_Q += tuple(np.float32(v) for v in (-0.03583096, 0.01913486, -0.00728217, 0.0013505))
_P0, _P1, _P2, _P3, _P4, _P5, _P6, _P7 = _P
_Q0, _Q1, _Q2, _Q3, _Q4, _Q5, _Q6, _Q7 = _Q
_ONE, _ZERO, _PI, _TURN = (np.float32(v) for v in (1.0, 0.0, np.pi, 1 / (2 * np.pi)))
# Rounding leaves the cosine of a row with itself a few units short of 1, and arccos turns 1e-7 into 5e-4.
_NEARLY = np.float32(1 - 6e-7)


@njit(fastmath=FAST, error_model="numpy", cache=True)
def relu_layer(s, t, scale_x, scale_y, inverse_x, inverse_y):
    """Pass covariances `s` and tangent kernel `t` through a ReLU, in place; arrays of one shape (n,).

    Parameters
    ----------
    scale_x, scale_y : square roots of the variances
    inverse_x, inverse_y : one over them; 0 where the variance is 0
    """
    if s.itemsize == 4:
        _relu_float32(s, t, scale_x, scale_y, inverse_x, inverse_y)
    else:
        _relu_float64(s, t, scale_x, scale_y, inverse_x, inverse_y)


@njit(fastmath=FAST, error_model="numpy", cache=True)
def _relu_float32(s, t, scale_x, scale_y, inverse_x, inverse_y):
    for i in range(len(s)):
        c = s[i] * (inverse_x[i] * inverse_y[i])
        x = abs(c)
        x = _ONE if x > _NEARLY else x
        root = np.sqrt(_ONE - x)
        p = _P0 + x * (_P1 + x * (_P2 + x * (_P3 + x * (_P4 + x * (_P5 + x * (_P6 + x * _P7))))))
        q = _Q0 + x * (_Q1 + x * (_Q2 + x * (_Q3 + x * (_Q4 + x * (_Q5 + x * (_Q6 + x * _Q7))))))
        angle = root * p  # arccos |c|
        past = _PI - angle if c > _ZERO else angle  # pi - t
        along = x if c > _ZERO else -x
        s[i] = (scale_x[i] * scale_y[i]) * (_TURN * (root * q + past * along))
        t[i] *= _TURN * past


@njit(fastmath=FAST, error_model="numpy", cache=True)
def _relu_float64(s, t, scale_x, scale_y, inverse_x, inverse_y):
    for i in range(len(s)):
        c = s[i] * (inverse_x[i] * inverse_y[i])
        c = min(max(c, -1.0), 1.0)
        c = c if abs(c) < 1.0 - 1e-14 else float(np.sign(c))
        past = np.pi - np.arccos(c)
        s[i] = scale_x[i] * scale_y[i] * (np.sqrt((1.0 - c) * (1.0 + c)) + past * c) / (2.0 * np.pi)
        t[i] *= past / (2.0 * np.pi)


@njit(fastmath=FAST, error_model="numpy", cache=True)
def deviations(variance, scale, inverse):
    """Write the square roots of `variance` into `scale` and one over them (0 for 0) into `inverse`."""
    for i in range(len(variance)):
        root = np.sqrt(variance[i])
        scale[i] = root
        inverse[i] = variance.dtype.type(1) / root if root > 0 else variance.dtype.type(0)
