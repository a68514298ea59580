"""Models with groups and many columns: designs and chains against what they promise, and which
numbers decide the claims."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from handful.matching.priors import GaussianPrior
from handful_papers.claims import Evidence
from handful_papers.own import groups as protocol


def test_a_design_holds_columns_indicators_and_slopes_of_groups():
    X, group, _ = protocol.generated_groups(5, 40, 0)
    design, deviations = protocol.design_of(X, group, slopes=(1,))
    theta = np.random.default_rng(0).normal(size=len(deviations) - 1)
    effects, slopes = np.split(theta[4:], 2)
    expected = X @ theta[:4] + effects[group] + slopes[group] * X[:, 1]
    np.testing.assert_allclose(design @ theta, expected)
    assert deviations.tolist() == [1.0] * 4 + [0.7] * 10 + [5.0]


def test_rows_of_each_group_stand_for_it():
    group = np.repeat(np.arange(6), [3, 10, 40, 100, 7, 240])
    places, weights = protocol.drawn_in_groups(group, 100, np.random.default_rng(0))
    assert len(places) == len(np.unique(places))
    np.testing.assert_allclose(np.bincount(group[places], weights), np.bincount(group))


def test_chains_have_the_moments_of_their_density():
    X, group, y = protocol.generated_groups(4, 100, 0)
    design, deviations = protocol.design_of(X, group)
    rows = protocol.sparse_rows(design, y)
    prior = GaussianPrior(deviations**-2.0)
    rng = np.random.default_rng(0)
    draws, scale = protocol.chain_of(rows, prior, rng, n_chains=4, n_steps=2000)
    # by importance weights of wider draws
    gaussian = protocol.SparsePilot.at_mode(rows, prior, np.zeros(len(deviations)))
    theta = gaussian.draws(40_000, rng, inflation=1.2)
    moves = theta - gaussian.mode
    proposed = -0.5 * (moves * (gaussian.curvature @ moves.T).T).sum(1) / 1.44
    logs = rows.sums(theta) + prior(theta) - proposed
    w = np.exp(logs - logs.max())
    mean = w @ theta / w.sum()
    np.testing.assert_allclose(draws.mean((0, 1)), mean, atol=0.12 * scale.max())


@pytest.mark.parametrize("fails", [True, False])
def test_the_form_is_judged_where_importance_weights_fail(fails):
    found = []
    for seed in range(3):
        for method, variance in {"near the mean": 4.0 if fails else 0.1, "form": 1.0}.items():
            found.append(
                dict(part="columns", what="a", seed=seed, method=method, variance=variance)
            )
    found.append(dict(part="groups", what="b", seed=0, method="matched", variance=1e-4))
    found.append(dict(part="check", seed=0, right=True, verdict="make more draws"))
    found.append(dict(part="check", seed=0, right=False, verdict="use the draws"))
    found.append(dict(part="check", seed=0, right=False, verdict="make more draws"))
    given = protocol.evidence(SimpleNamespace(rows=pd.DataFrame(found)))
    of_form = given["own-groups-form"]
    if fails:
        np.testing.assert_allclose(of_form["a"], 0.25)
    else:
        assert isinstance(of_form, Evidence)
    assert given["own-groups-check"].tolist() == [1.0, 0.0, 1.0]
    assert isinstance(given["own-groups-nuts"], Evidence)
