"""Rows in blocks are compressed, then chosen from: as good a choice as from one array."""

import pickle
import tracemalloc
from importlib import import_module

import numpy as np
import pytest
from handful import BilevelCoreset, LeastSquares, Logistic, MatchedCoreset, sources
from handful.blocks import Blocks
from handful.models import Poisson
from scipy import sparse
from scipy.special import expit
from sklearn.metrics import log_loss, mean_poisson_deviance, mean_squared_error


def table(name, n=16_000):
    """Heavy tails, a rare indicator, and labels that no linear model explains."""
    rng = np.random.default_rng(0)
    X = rng.standard_t(3, size=(n, 5))
    X[:, 1] = X[:, 1] > 2.5
    X = (X - X.mean(0)) / X.std(0)
    if name == "poisson":
        # The rate of a row far out would be all of the loss.
        X = np.clip(X, -2, 2)
    eta = X @ [1.0, -0.5, 0.5, 0.2, 0.0] + 0.3 * np.abs(X[:, 2]) - 1
    y = {
        "binary": (rng.random(n) < expit(eta)).astype(int),
        "three classes": rng.integers(0, 2, n) + (eta > 0),
        "squares": eta + rng.standard_t(3, size=n),
        "poisson": rng.poisson(np.exp(np.clip(eta, -5, 1.5))),
    }[name]
    l2 = 1e-3
    problem = {"squares": LeastSquares(l2), "poisson": Poisson(l2)}.get(name, Logistic(l2))
    return problem, X, y


def loss(problem, X, y, indices, weights):
    """Loss on half of the rows of the model that is trained on some of the other half."""
    half = len(X) // 2
    model = problem.estimator(half).fit(X[indices], y[indices], sample_weight=weights)
    if problem.classifies:
        return log_loss(y[half:], model.predict_proba(X[half:]))
    said = model.predict(X[half:])
    score = mean_poisson_deviance if isinstance(problem, Poisson) else mean_squared_error
    return score(y[half:], said) / 2


@pytest.mark.parametrize("name", ["binary", "three classes", "squares", "poisson"])
def test_a_choice_from_blocks_is_as_good_as_from_one_array(name):
    problem, X, y = table(name)
    half = len(X) // 2
    every = loss(problem, X, y, np.arange(half), np.ones(half))
    few = BilevelCoreset(problem, size=60, random_state=0)
    local = few.fit(X[:half], y[:half])
    allowed = max(0.0, loss(problem, X, y, local.indices_, local.weights_) - every) + 0.005
    orders = {
        "as they come": np.arange(half),
        "by a column": np.argsort(X[:half, 0]),
        "by target": np.argsort(y[:half], kind="stable"),
    }
    for order in orders.values():
        few.fit(Blocks(X[order], y[order], rows=1100))
        assert len(few.indices_) <= 60
        assert len(np.unique(few.indices_)) == len(few.indices_)
        assert few.weights_.sum() == pytest.approx(half)
        assert loss(problem, X, y, order[few.indices_], few.weights_) - every < allowed


def test_few_rows_stand_for_all_wherever_the_blocks_end():
    problem, X, y = table("binary", n=6000)
    weights = np.random.default_rng(1).integers(0, 3, 6000).astype(float)
    order = np.argsort(X[:, 0])
    for n_rows in (6000, 1000, 300):
        blocks = Blocks(X[order], y[order], weights[order], rows=n_rows)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("handful.matching.matched_coreset.PER_BLOCK", 1000)
            few, beside = MatchedCoreset(problem).stand_in(blocks, 40, np.random.default_rng(2))
        assert few.weight.sum() == pytest.approx(weights.sum())
        assert len(np.unique(beside.ids)) == 40
        share = np.count_nonzero(weights) / 40
        np.testing.assert_allclose(beside.weight, weights[order][beside.ids] * share)
        np.testing.assert_array_equal(few.X, X[order][few.ids])
        np.testing.assert_array_equal(few.y, y[order][few.ids])
        for l2 in (1e-4, 3e-3):
            model = Logistic(l2).estimator(weights.sum())
            model.set_params(tol=1e-9).fit(X, y, sample_weight=weights)
            of_all = log_loss(y, model.predict_proba(X), sample_weight=weights)
            of_few = log_loss(few.y, model.predict_proba(few.X), sample_weight=few.weight)
            assert of_few == pytest.approx(of_all, abs=2e-4)


@pytest.mark.parametrize("weighting", ["optimised", "equal"])
def test_a_class_that_the_sample_misses_is_a_candidate(weighting):
    problem, X, y = table("binary", n=9000)
    y = np.where(np.arange(9000) < 3, 2, y)
    X[:3] += 4
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("handful.bilevel.compressed.N_CANDIDATES", 100)
        patch.setattr("handful.bilevel.compressed.N_EQUAL", 100)
        few = BilevelCoreset(problem, size=30, weighting=weighting, random_state=0)
        few.fit(Blocks(X, y, rows=2000))
    assert set(y[few.indices_]) == {0, 1, 2}


def test_rows_of_weight_zero_are_never_chosen():
    problem, X, y = table("binary", n=6000)
    weights = np.random.default_rng(0).integers(0, 2, 6000) * 2.5
    few = BilevelCoreset(problem, size=30, random_state=0).fit(Blocks(X, y, weights, rows=1500))
    assert (weights[few.indices_] > 0).all()
    assert few.weights_.sum() == pytest.approx(weights.sum())


@pytest.mark.parametrize("kind", ["sparse", "soft", "wide"])
def test_what_cannot_be_matched_is_chosen_from_a_sample(kind):
    problem, X, y = table("binary", n=4000)
    if kind == "sparse":
        X = sparse.csr_matrix(X)
    elif kind == "soft":
        y = np.column_stack([1 - 0.9 * y, 0.9 * y])
    else:
        X = np.hstack([X, np.random.default_rng(0).normal(size=(4000, 200))])
        blocks = Blocks(X, y, rows=1100)
        assert MatchedCoreset(problem).stand_in(blocks, 40, np.random.default_rng(2)) is None
    few = BilevelCoreset(problem, size=20, random_state=0).fit(Blocks(X, y, rows=1100))
    assert len(few.indices_) == 20
    assert few.weights_.sum() == pytest.approx(4000)


def noted(method, found):
    """The method, which leaves what it gives in a list."""

    def call(*args):
        found.append(method(*args))
        return found[-1]

    return call


@pytest.mark.parametrize("name", ["binary", "three classes", "squares", "poisson"])
def test_many_rows_in_memory_are_compressed_first_at_equal_loss(name, monkeypatch):
    problem, X, y = table(name)
    half = len(X) // 2
    few = BilevelCoreset(problem, size=60, random_state=0)
    weights = np.random.default_rng(2).integers(0, 3, half).astype(float)
    for given in (None, weights):
        local = few.fit(X[:half], y[:half], given)
        losses = [loss(problem, X, y, local.indices_, local.weights_)]
        stood_in = []
        with monkeypatch.context() as patch:
            patch.setattr("handful.bilevel.bilevel_coreset.FROM_ROWS", 5000)
            patch.setattr(MatchedCoreset, "stand_in", noted(MatchedCoreset.stand_in, stood_in))
            few.fit(X[:half], y[:half], given)
        assert len(stood_in[0][0]) < half / 3
        losses.append(loss(problem, X, y, few.indices_, few.weights_))
        assert len(np.unique(few.indices_)) <= 60
        total = half if given is None else given.sum()
        assert few.weights_.sum() == pytest.approx(total)
        assert given is None or (given[few.indices_] > 0).all()
        assert losses[1] < losses[0] + 0.003


@pytest.mark.parametrize(
    "options",
    [
        dict(outer_penalty=False),
        dict(weighting="equal"),
        dict(strategy="exchange"),
        dict(size=40),
    ],
    ids=str,
)
def test_what_asks_for_all_rows_or_few_points_looks_at_all_rows_in_memory(options, monkeypatch):
    monkeypatch.setattr("handful.bilevel.bilevel_coreset.FROM_ROWS", 500)
    monkeypatch.setattr(MatchedCoreset, "stand_in", None)
    problem, X, y = table("binary", n=600)
    few = BilevelCoreset(problem, **dict(size=60, random_state=0) | options).fit(X, y)
    assert len(few.indices_) <= 60


def test_labels_may_be_words_and_what_cannot_be_matched_is_chosen_from_all(monkeypatch):
    monkeypatch.setattr("handful.bilevel.bilevel_coreset.FROM_ROWS", 500)
    problem, X, y = table("binary", n=3000)
    few = BilevelCoreset(problem, size=50, random_state=0)
    numbers = few.fit(X, y).indices_.tolist()
    assert few.fit(X, np.array(["no", "yes"])[y]).indices_.tolist() == numbers
    found = []
    for from_rows in (500, 100_000):
        monkeypatch.setattr("handful.bilevel.bilevel_coreset.FROM_ROWS", from_rows)
        found.append(few.fit(sparse.csr_matrix(X), y).indices_.tolist())
    assert found[0] == found[1]


def test_an_outer_loss_of_validation_rows_that_are_not_given_is_refused(monkeypatch):
    monkeypatch.setattr("handful.bilevel.bilevel_coreset.FROM_ROWS", 500)
    problem, X, y = table("binary", n=600)
    few = BilevelCoreset(problem, size=50, outer="validation", random_state=0)
    with pytest.raises(ValueError, match="with no validation set"):
        few.fit(X, y)
    with pytest.raises(ValueError, match="validation rows are for data in memory"):
        few.fit(Blocks(X, y, rows=200))


def in_files(folder, X, y, rows):
    """Patterns of .npy files of so many rows each."""
    folder.mkdir(exist_ok=True)
    for i, first in enumerate(range(0, len(X), rows)):
        np.save(folder / f"X{i}.npy", X[first : first + rows])
        np.save(folder / f"y{i}.npy", y[first : first + rows])
    return f"{folder}/X*.npy", f"{folder}/y*.npy"


def test_a_choice_from_files_takes_memory_for_a_block_and_little_for_each_row(
    tmp_path, monkeypatch
):
    rows = 10_000
    # Neighbours are not joined.
    monkeypatch.setattr("handful.matching.matched_coreset.PER_BLOCK", 5 * rows)
    few = BilevelCoreset(Logistic(1e-3), size=20, random_state=0)
    peaks = []
    sizes = (100_000, 400_000)
    for n in sizes:
        _, X, y = table("binary", n=n)
        files = in_files(tmp_path / str(n), X, y, rows)
        few.fit(*files)
        tracemalloc.start()
        few.fit(*files)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    per_row = (peaks[1] - peaks[0]) / (sizes[1] - sizes[0])
    # A byte for the label, and for a moment eight for the weights, added up. The columns have 40.
    assert per_row < 12


def test_a_choice_from_files_reads_them_seven_times(tmp_path, monkeypatch):
    monkeypatch.setattr("handful.matching.matched_coreset.PER_BLOCK", 50_000)
    opened = []
    read = sources._mapped

    def counted(path):
        opened.append(path.name)
        return read(path)

    _, X, y = table("binary", n=100_000)
    ranks = np.argsort(np.argsort(X, axis=0), axis=0)
    tables = {"even": ranks / 1e5, "heavy tails": X}
    # Targets, means, candidates and a pilot, gradients, sums, a sample, and the rows matched; of
    # heavy tails also a larger sample, all rows, and what each block keeps of these.
    most = {"even": 7, "heavy tails": 10}
    for name, columns in tables.items():
        blocks = Blocks(*in_files(tmp_path / name, columns, y, 10_000))
        opened.clear()
        with monkeypatch.context() as patch:
            patch.setattr(sources, "_mapped", counted)
            BilevelCoreset(Logistic(1e-3), size=20, random_state=0).fit(blocks)
        assert opened.count("X7.npy") <= most[name]


@pytest.mark.parametrize("rows", [200, 1100])
def test_small_blocks_are_halved_about_as_often_as_one_array(rows, monkeypatch):
    problem, X, y = table("binary", n=16_000)
    monkeypatch.setattr("handful.matching.likelihood_sums.MANY_NUMBERS", np.inf)
    monkeypatch.setattr("handful.matching.matched_coreset.PER_BLOCK", 1000)
    eliminated = []
    # The package has a function of this name.
    recombine = import_module("handful.matching.recombine")
    halve = recombine._eliminate

    def counted(M, **options):
        eliminated.append(len(M))
        return halve(M, **options)

    monkeypatch.setattr(recombine, "_eliminate", counted)
    times = []
    for blocks in (Blocks(X, y), Blocks(X, y, rows=rows)):
        eliminated.clear()
        MatchedCoreset(problem).stand_in(blocks, 40, np.random.default_rng(0))
        times.append(len(eliminated))
    assert times[1] <= 2 * times[0]


def test_what_goes_to_workers_holds_no_rows():
    _, X, y = table("binary", n=9000)
    blocks = Blocks(X, y, rows=1000)
    sums = MatchedCoreset(Logistic(1e-3))._rows(blocks, None, None).moved("path")
    assert len(pickle.dumps(sums.model)) < 3000
    own = [pickle.dumps(own) for own in sums.own]
    # A byte for each label.
    assert max(map(len, own)) < 2 * max(sums.blocks.lengths)
