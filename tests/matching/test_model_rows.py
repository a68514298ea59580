"""Rows that keep log-likelihoods which another program has computed."""

from types import SimpleNamespace

import numpy as np
import pytest
from handful.matching import from_log_lik
from scipy.stats import norm

N = 900


def log_lik(n_draws, seed, n_columns=1):
    rng = np.random.default_rng(seed)
    y = np.random.default_rng(0).normal(size=(N, n_columns))
    mean = rng.normal(0, 1 / np.sqrt(N), size=n_draws)
    return norm.logpdf(y, mean[:, None, None])


def test_sums_at_the_matched_draws_are_kept_and_draws_of_the_rows_are_judged():
    values = log_lik(40, 1)[:, :, 0]
    rows = from_log_lik(values)
    assert len(rows.indices_) <= 41
    np.testing.assert_allclose(values[:, rows.indices_] @ rows.weights_, values.sum(1), rtol=1e-10)
    later = log_lik(400, 2)[:, :, 0]
    np.testing.assert_allclose(later[:, rows.indices_] @ rows.weights_, later.sum(1), rtol=1e-6)
    assert rows.check(later).verdict == "use the draws"
    # another model's draws are not those of all rows
    assert rows.check(later**2).verdict == "refuse"
    with pytest.raises(ValueError, match="log_lik must be of all 900 rows, got 899"):
        rows.check(later[:, 1:])


def test_chains_and_groups_of_variables_and_columns_are_added_up():
    values = log_lik(40, 1, n_columns=3).reshape(4, 10, N, 3)
    plain = from_log_lik(values.sum(-1))
    one = SimpleNamespace(log_likelihood={"y": values})
    several = SimpleNamespace(log_likelihood={f"y{k}": values[..., k] for k in range(3)})
    for given in (one, several):
        rows = from_log_lik(given)
        np.testing.assert_array_equal(rows.indices_, plain.indices_)
        np.testing.assert_allclose(rows.weights_, plain.weights_, rtol=1e-6)


def test_what_has_no_entry_a_row_is_refused():
    values = log_lik(40, 1)[:, :, 0].reshape(4, 10, N)
    total = values.sum(-1)
    for variables, words in (
        ({"total": total}, r"entry for each row, .* 'total' has none"),
        ({"y": values, "total": total}, r"'total' has none"),
        ({"y": values, "z": values[..., :5]}, "of the same rows in each variable"),
    ):
        with pytest.raises(ValueError, match=words):
            from_log_lik(SimpleNamespace(log_likelihood=variables))
    with pytest.raises(ValueError, match="must have shape"):
        from_log_lik(values[0, 0])
    with pytest.raises(ValueError, match="must be finite"):
        from_log_lik(np.where(values == values.min(), -np.inf, values))
