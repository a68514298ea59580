"""Inverse-Hessian-vector products from products alone."""

import numpy as np
import pytest
from handful.models.inverse import NeumannSeries


def hessian(rng, eigenvalues):
    Q, _ = np.linalg.qr(rng.normal(size=(len(eigenvalues),) * 2))
    return Q @ np.diag(eigenvalues) @ Q.T


@pytest.mark.parametrize("late", [0, 25, 60])
@pytest.mark.parametrize("times", [3.0, 1e3])
def test_a_series_holds_minibatches_of_larger_curvature_than_it_began_with(late, times):
    """Of a network that fits its rows a few rows hold nearly all the curvature: the power
    iterations may not meet them."""
    rng = np.random.default_rng(int(times) + late)
    flat = hessian(rng, np.linspace(1.0, 2.0, 8))
    bent = hessian(rng, [*np.linspace(1.0, 2.0, 7), 2.0 * times])
    g = rng.normal(size=8)
    seen = 0

    def product(v):
        nonlocal seen
        seen += 1
        return (bent if seen > 20 + late else flat) @ v

    terms = int(40 * times)
    found = NeumannSeries(terms).solve(product, g)
    np.testing.assert_allclose(found, np.linalg.solve(bent, g), rtol=1e-6)
    assert seen > 20 + terms - 1


def test_one_matrix_needs_no_second_beginning():
    rng = np.random.default_rng(0)
    H = hessian(rng, np.geomspace(1e-6, 1.0, 30))
    g = rng.normal(size=30)
    seen = []
    found = NeumannSeries(50).solve(lambda v: seen.append(v) or H @ v, g)
    assert len(seen) == 20 + 49
    scale = (NeumannSeries(1).solve(lambda v: H @ v, g) / g)[0]
    step = np.eye(30) - scale * H
    plain = scale * sum(np.linalg.matrix_power(step, i) @ g for i in range(50))
    np.testing.assert_allclose(found, plain, rtol=1e-9)
