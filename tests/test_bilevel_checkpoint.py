"""Selections that go on where they were killed: the same points as if nothing had happened."""

import functools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from handful import BilevelCoreset  # noqa: E402 (needs torch)
from handful.bilevel import Forward, Network, NeumannSeries, TrainConfig  # noqa: E402

QUICK = TrainConfig(n_steps=8, learning_rate=2e-2, optimiser="adam", weight_decay=2e-2)
OPTIONS = dict(strategy=Forward(6, n_start=9), rule="linear", ihvp=NeumannSeries(3), random_state=0)


def net(seed=0, between=torch.nn.Tanh):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(4, 5), between(), torch.nn.Linear(5, 3))


def squares(outputs, targets):
    return (outputs.sum(dim=1) - targets) ** 2


def absolute(outputs, targets):
    return (outputs.sum(dim=1) - targets).abs()


def noisy(X, generator, scale=0.1):
    return X + scale * torch.randn(X.shape, generator=generator)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    return rng.normal(size=(60, 4)) + np.eye(4)[y] * 2, y


@pytest.fixture
def trainings(monkeypatch):
    """The (seed, rows) of each training; the one at position `fail_at` is a power cut."""
    log, fit = [], Network.fit_module

    def watch(self, X, y, rng):
        log.append((self.random_state, len(X)))
        if len(log) == watch.fail_at:
            raise RuntimeError("power cut")
        return fit(self, X, y, rng)

    watch.fail_at = None
    monkeypatch.setattr(Network, "fit_module", watch)
    return log, watch


def test_a_killed_run_goes_on_where_it_was(data, tmp_path, trainings):
    log, watch = trainings
    whole = BilevelCoreset(Network(net(), train=QUICK), size=33, **OPTIONS).fit(*data)
    log.clear()
    watch.fail_at = 3
    problem = Network(net(), train=QUICK, checkpoint=tmp_path / "kept" / "choice.npz")
    with pytest.raises(RuntimeError, match="power cut"):
        BilevelCoreset(problem, size=33, **OPTIONS).fit(*data)
    again = BilevelCoreset(problem, size=33, **OPTIONS).fit(*data)
    assert [rows for _, rows in log] == [9, 15, 21, 21, 27]
    np.testing.assert_array_equal(again.indices_, whole.indices_)


@pytest.mark.parametrize(
    ("changes", "trained"),
    [
        (dict(size=33), []),
        (dict(size=21), []),
        (dict(size=24), [21]),  # the last round of an uninterrupted run has 3 rows
        (dict(size=40), [33, 39]),
        (dict(strategy=Forward(4, n_start=9)), [9, 13, 17, 21, 25, 29]),
    ],
)
def test_other_sizes_and_batches_take_what_they_would_have_chosen(data, tmp_path, trainings, changes, trained):
    problem = Network(net(), train=QUICK, checkpoint=tmp_path / "choice.npz")
    BilevelCoreset(problem, size=33, **OPTIONS).fit(*data)
    trainings[0].clear()
    options = dict(OPTIONS, size=33) | changes
    again = BilevelCoreset(problem, **options).fit(*data)
    assert [rows for _, rows in trainings[0]] == trained
    alone = BilevelCoreset(Network(net(), train=QUICK), **options).fit(*data)
    np.testing.assert_array_equal(again.indices_, alone.indices_)


REGRESSION = dict(loss=squares, train=QUICK)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (dict(module=net()), dict(module=net(1))),
        (dict(module=net()), dict(module=net(between=torch.nn.ReLU))),
        (dict(module=functools.partial(net, 0)), dict(module=functools.partial(net, 1))),
        (dict(REGRESSION, module=net()), dict(REGRESSION, module=net(), loss=absolute)),
        (dict(train=TrainConfig(n_steps=8, augment=noisy)), dict(train=TrainConfig(n_steps=8))),
        (dict(random_state=0), dict(random_state=1)),
    ],
)
def test_another_problem_is_refused(data, tmp_path, first, second):
    path = tmp_path / "choice.npz"
    common = dict(module=net(), train=QUICK, checkpoint=path)
    X, y = data
    y = y.astype(float) if "loss" in first else y
    fit = BilevelCoreset(Network(**common | first), size=15, **OPTIONS).fit(X, y)
    again = BilevelCoreset(Network(**common | first), size=15, **OPTIONS).fit(X, y)
    np.testing.assert_array_equal(fit.indices_, again.indices_)
    with pytest.raises(ValueError, match="other data, another start or another problem"):
        BilevelCoreset(Network(**common | second), size=15, **OPTIONS).fit(X, y)


@pytest.mark.parametrize("change", ["X", "y", "weights", "start", "ihvp"])
def test_other_data_are_refused(data, tmp_path, change):
    X, y = data
    problem = Network(net(), train=QUICK, checkpoint=tmp_path / "choice.npz")
    BilevelCoreset(problem, size=15, **OPTIONS).fit(X, y)
    X = X + (change == "X")
    y = np.roll(y, 1) if change == "y" else y
    weights = np.arange(1, 61) if change == "weights" else None
    options = OPTIONS | (dict(random_state=1) if change == "start" else dict(ihvp="cg") if change == "ihvp" else {})
    with pytest.raises(ValueError, match="other data, another start or another problem"):
        BilevelCoreset(problem, size=15, **options).fit(X, y, sample_weight=weights)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04broken"])
def test_a_file_that_is_no_checkpoint_is_told(data, tmp_path, content):
    path = tmp_path / "choice.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"choice\.npz is no checkpoint of a selection: remove it"):
        BilevelCoreset(Network(net(), train=QUICK, checkpoint=path), size=15, **OPTIONS).fit(*data)
