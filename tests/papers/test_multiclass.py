"""The strategies of Figures 3 and 7, in parts."""

import numpy as np
import pytest
from handful_papers.bico.multiclass import Split, Variants
from handful_papers.tasks import run_task


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=200)
    X = (rng.normal(size=(200, 6)) + 1.5 * np.eye(3, 6)[y]).astype(np.float32)
    return Split("x", None, X[:120], y[:120], X[120:150], y[120:150], X[150:], y[150:])


@pytest.mark.parametrize("strategy", ["forward", "eliminate", "regularised", "exchange"])
def test_a_strategy_whose_last_part_is_lost_chooses_the_same_rows_again(
    strategy, data, tmp_path, monkeypatch
):
    monkeypatch.setattr("handful_papers.bico.multiclass.ROUNDS", 10)

    def choose():
        return getattr(Variants(data, 1e-2, [20, 60], seed=0), strategy)()

    def task():
        return [
            dict(size=m, row=int(row)) for m, (indices, _) in choose().items() for row in indices
        ]

    whole = [dict(size=m, row=int(row)) for m, (indices, _) in choose().items() for row in indices]
    assert run_task(task, {}, [], str(tmp_path))[0] == whole
    parts = sorted(tmp_path.rglob("*.pickle"), key=lambda path: path.stat().st_mtime_ns)
    assert len(parts) == {"forward": 5, "eliminate": 2, "regularised": 1, "exchange": 2}[strategy]
    parts[-1].unlink()
    assert run_task(task, {}, [], str(tmp_path))[0] == whole
