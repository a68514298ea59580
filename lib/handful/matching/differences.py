"""Derivatives of functions of parameters by central differences."""

import numpy as np

from handful.models.newton import bordered

# Of differences, in deviations.
WIDTH = 0.02
# Of the first step, beside the magnitude of a parameter.
STEP = 1e-3


def evenly(places, most):
    """At most so many of some numbers, shape (n,), from first to last."""
    n = len(places)
    kept = np.linspace(0, n - 1, min(most, n))
    return places[kept.astype(int)]


def around(theta, moves):
    """Parameters (p,), then those of each move ahead and of each back, shape (1 + 2 K, p)."""
    ahead = theta + moves
    behind = theta - moves
    return np.vstack([theta, ahead, behind])


def steps_at(theta):
    """So far apart are the parameters (p,) that are tried, shape (p,)."""
    sizes = np.maximum(1.0, np.abs(theta))
    return STEP * sizes


def slopes_by_differences(f, theta, directions):
    """Slopes of a function of parameters (K, p) along the columns of directions, shape (p, r), each
    about a deviation long: shape (K, r)."""
    found = []
    for direction in directions.T:
        step = WIDTH * direction
        ahead = f(theta + step)
        behind = f(theta - step)
        found.append((ahead - behind) / (2 * WIDTH))
    return np.column_stack(found)


def differences(f, pairs):
    """The expansion of a function of parameters (K, p) by central differences, at pairs that may be
    curved together."""
    j, k = pairs.T

    def expansion(theta):
        h = steps_at(theta)
        # the second time as wide as the curvature allows
        for _ in range(2):
            E = np.diag(h)
            base, *single = f(around(theta, E))
            changes = np.reshape(single, (2, -1)) - base
            plus, minus = changes
            last = h
            bend = np.maximum(np.abs(plus + minus), 1e-300)
            wide = WIDTH * h / np.sqrt(bend)
            h = np.minimum(h, wide)
        ahead = f(theta + E[j] + E[k])
        behind = f(theta - E[j] - E[k])
        both = ahead + behind - 2 * base
        alone = plus[j] + plus[k] + minus[j] + minus[k]
        area = 2 * last[j] * last[k]
        second = (alone - both) / area
        p = len(theta)
        H = np.zeros((p, p))
        H[j, k] = second
        H[k, j] = second
        slope = (plus - minus) / (2 * last)
        return bordered(base, slope, H)

    return expansion
