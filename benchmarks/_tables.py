"""Tables of the registry, cut down and standardised, for benchmarks that compare qualities."""

import numpy as np
from handful import data


def halves(name, rng, most):
    """``(X, y, X_test, y_test)``: two disjoint random halves of at most `most` rows each, of column
    variance one."""
    source = data.load(name)
    X = np.asarray(source.X, dtype=float)
    y = np.unique(source.y, return_inverse=True)[1]
    order = rng.permutation(len(y))[: 2 * most]
    X = X[order]
    y = y[order]
    X = X[:, X.std(axis=0) > 0]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    half = len(y) // 2
    return X[:half], y[:half], X[half:], y[half:]
