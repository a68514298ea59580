"""Balanced draws: right probabilities, totals that are kept, against plainer draws and a cube
method row by row."""

from decimal import Decimal
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from handful.baselines import BalancedCoreset, StratifiedCoreset, UniformCoreset, cube
from handful.baselines.balanced import leading_columns
from handful.baselines.cube import cube_sample
from handful.blocks import Blocks
from handful.plans import inclusion_probabilities
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse


def row_by_row(columns, probabilities, rng):
    """The flight of Deville and Tillé (2004) by one null vector of all undecided rows a step,
    without the landing."""
    state = probabilities.copy()
    balanced = columns / probabilities[:, None]
    while True:
        undecided = np.flatnonzero((state > 1e-9) & (state < 1 - 1e-9))
        if len(undecided) <= columns.shape[1]:
            return state
        direction = np.linalg.svd(balanced[undecided].T)[2][-1]
        room = np.where(direction > 0, 1 - state[undecided], state[undecided]) / np.abs(direction)
        back = np.where(direction > 0, state[undecided], 1 - state[undecided]) / np.abs(direction)
        ahead = room.min()
        behind = back.min()
        step = ahead if rng.random() < behind / (ahead + behind) else -behind
        state[undecided] += step * direction


def total_error(columns, probabilities, drawn):
    return (columns[drawn] / probabilities[drawn, None]).sum(axis=0) - columns.sum(axis=0)


@settings(deadline=None, max_examples=30)
@given(
    n=st.integers(4, 60),
    n_columns=st.integers(1, 6),
    share=st.floats(0.1, 0.9),
    seed=st.integers(0, 2**31),
    is_equal=st.booleans(),
)
def test_the_size_is_exact_and_totals_are_kept_up_to_the_last_rows(
    n, n_columns, share, seed, is_equal
):
    rng = np.random.default_rng(seed)
    size = max(1, round(share * n))
    probabilities = inclusion_probabilities(
        np.ones(n) if is_equal else rng.gamma(1.0, size=n) + 1e-3, size
    )
    columns = np.column_stack(
        [probabilities, rng.normal(size=(n, n_columns - 1)) * probabilities[:, None]]
    )
    drawn = cube_sample(columns, probabilities, rng)
    assert len(drawn) == size
    assert set(np.flatnonzero(probabilities == 1)) <= set(drawn)
    most = np.abs(columns / probabilities[:, None]).max(axis=0)
    assert (np.abs(total_error(columns, probabilities, drawn)) <= n_columns * most + 1e-6).all()


def test_each_row_is_drawn_with_its_probability():
    rng = np.random.default_rng(0)
    probabilities = inclusion_probabilities(rng.gamma(2.0, size=25), 8)
    columns = np.column_stack([probabilities, rng.normal(size=(25, 3))])
    n_draws = 1000
    counts = np.zeros(25)
    for _ in range(n_draws):
        counts[cube_sample(columns, probabilities, rng)] += 1
    deviation = np.sqrt(probabilities * (1 - probabilities) / n_draws)
    assert (np.abs(counts / n_draws - probabilities) <= 4 * deviation + 1e-12).all()


def test_pairs_are_drawn_as_often_as_without_a_column_to_balance():
    """With the size alone, six rows of which three are drawn: each pair as often as in a uniform
    draw, 1 in 5."""
    rng = np.random.default_rng(1)
    probabilities = np.full(6, 0.5)
    n_draws = 6000
    pairs = dict.fromkeys(combinations(range(6), 2), 0)
    for _ in range(n_draws):
        for pair in combinations(cube_sample(probabilities[:, None], probabilities, rng), 2):
            pairs[pair] += 1
    shares = np.array(list(pairs.values())) / n_draws
    assert np.abs(shares - 0.2).max() < 5 * np.sqrt(0.2 * 0.8 / n_draws)


def test_a_sample_that_can_be_balanced_exactly_is():
    """Rows in pairs of x and -x, in strata of four: a balanced half exists, and nothing is left for
    the landing."""
    rng = np.random.default_rng(2)
    strata = np.repeat(np.eye(10), 4, axis=0)
    probabilities = np.full(40, 0.5)
    columns = np.column_stack([probabilities, strata])
    for _ in range(20):
        drawn = cube_sample(columns, probabilities, rng)
        assert np.abs(total_error(columns, probabilities, drawn)).max() < 1e-9


def test_groups_leave_what_the_flight_row_by_row_leaves():
    """Both end with at most q undecided rows; the errors of totals after the landing have the same
    size."""
    rng = np.random.default_rng(3)
    probabilities = np.full(300, 0.1)
    columns = np.column_stack([probabilities, rng.normal(size=(300, 4)) * 0.1])
    state = row_by_row(columns, probabilities, rng)
    assert np.abs((columns / probabilities[:, None]).T @ (state - probabilities)).max() < 1e-9
    plain = []
    ours = []
    for _ in range(60):
        state = row_by_row(columns, probabilities, rng)
        landed = rng.random(300) < state
        plain.append(total_error(columns, probabilities, landed))
        ours.append(total_error(columns, probabilities, cube_sample(columns, probabilities, rng)))
    assert np.std(ours) < 1.5 * np.std(plain)


def errors_of_means(selector, X, y=None, n_draws=60):
    found = []
    for seed in range(n_draws):
        selector.set_params(random_state=seed).fit(X, y)
        found.append(selector.weights_ @ X[selector.indices_] / len(X) - X.mean(axis=0))
    return np.sqrt(np.mean(np.square(found), axis=0)) / X.std(axis=0)


def test_means_of_all_columns_are_kept_better_than_by_uniform_and_stratified_draws():
    rng = np.random.default_rng(4)
    X = rng.gamma(2.0, size=(2000, 6)) @ rng.normal(size=(6, 6))
    y = (X[:, 0] > X[:, 0].mean()).astype(int)
    balanced = errors_of_means(BalancedCoreset(60), X, y)
    assert (balanced < 0.4 * errors_of_means(UniformCoreset(60), X, y)).all()
    assert (balanced < 0.4 * errors_of_means(StratifiedCoreset(60), X, y)).all()


def test_variances_are_kept_with_degree_two():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(2000, 3))
    squares = (X - X.mean(axis=0)) ** 2

    def spread(degree):
        found = []
        for seed in range(60):
            selector = BalancedCoreset(60, degree=degree, random_state=seed).fit(X)
            found.append(
                selector.weights_ @ squares[selector.indices_] / len(X) - squares.mean(axis=0)
            )
        return np.std(found, axis=0)

    assert spread(2).mean() < 0.5 * spread(1).mean()


@pytest.mark.parametrize("by", ["town", ["town"], ("town", "kind"), ["kind", ("town", "kind")]])
def test_shares_of_values_and_of_cells_are_within_a_row(by):
    rng = np.random.default_rng(6)
    table = pd.DataFrame(
        {"town": rng.choice(list("abc"), 3000), "kind": rng.choice(["x", "y"], 3000), "z": 1.0}
    )
    cells = ["town"] if by in ("town", ["town"]) else ["town", "kind"]
    expected = table.value_counts(cells) / 3000 * 50
    for seed in range(10):
        few, _ = BalancedCoreset(50, by=by, random_state=seed).fit(table).take(table)
        off = (few.value_counts(cells).reindex(expected.index, fill_value=0) - expected).abs()
        slack = 1.0 if by in ("town", ["town"], ("town", "kind")) else 2.0
        assert off.max() <= slack + 1e-9


def test_sample_weights_are_the_probabilities_and_totals_are_kept():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(1000, 3))
    weights = rng.gamma(1.0, size=1000)
    selector = BalancedCoreset(80, random_state=0).fit(X, sample_weight=weights)
    np.testing.assert_allclose(selector.weights_.sum(), weights.sum(), rtol=0.02)
    estimated = selector.weights_ @ X[selector.indices_]
    deviation = np.sqrt(weights.sum() * (weights @ X**2) / 80)
    assert (np.abs(estimated - weights @ X) < 0.5 * deviation).all()


def test_missing_values_words_times_and_rare_values_are_balanced_too():
    rng = np.random.default_rng(8)
    table = pd.DataFrame(
        {
            "number": np.where(rng.random(2000) < 0.3, np.nan, rng.normal(size=2000)),
            "word": rng.choice(["often", None], 2000, p=[0.7, 0.3]),
            "day": pd.Timestamp("2020-01-01")
            + pd.to_timedelta(rng.integers(0, 999, 2000), unit="D"),
            "name": [f"only {i}" for i in range(2000)],
            "whole": pd.array(rng.integers(0, 5, 2000), dtype="Int64"),
        }
    )
    few, _ = BalancedCoreset(60, random_state=0).fit(table).take(table)
    assert abs(few["number"].isna().sum() - 0.3 * 60) <= 3
    assert abs(few["word"].isna().sum() - 0.3 * 60) <= 3
    assert abs(few["whole"].mean() - table["whole"].mean()) < 0.3
    assert abs((few["day"].mean() - table["day"].mean()).days) < 60


def test_a_function_says_what_is_balanced():
    rng = np.random.default_rng(9)
    X = rng.normal(size=(1000, 4))
    selector = BalancedCoreset(40, by=lambda X: X[:, :2] ** 2, random_state=0).fit(X)
    assert selector.n_balanced_ == 2
    estimated = selector.weights_ @ X[selector.indices_, :2] ** 2 / 1000
    assert np.abs(estimated - (X[:, :2] ** 2).mean(axis=0)).max() < 0.15
    with pytest.raises(ValueError, match=r"by\(X\) must be finite numbers of shape \(1000, k\)"):
        BalancedCoreset(40, by=lambda X: X[:, 0]).fit(X)


def test_more_columns_than_rows_can_balance_become_principal_components():
    rng = np.random.default_rng(10)
    X = rng.normal(size=(500, 3)) @ rng.normal(size=(3, 40)) + 0.1 * rng.normal(size=(500, 40))
    selector = BalancedCoreset(20, random_state=0).fit(X)
    assert selector.n_balanced_ == 10
    assert (
        errors_of_means(BalancedCoreset(20), X).mean()
        < 0.6 * errors_of_means(UniformCoreset(20), X).mean()
    )


def test_columns_that_combine_others_are_left_out():
    rng = np.random.default_rng(11)
    X = rng.normal(size=(200, 2))
    features = np.column_stack([X, X.sum(axis=1), np.ones(200), 1e9 + X[:, 0]])
    assert leading_columns(features, np.ones(200), most=10).shape == (200, 2)


def test_a_column_that_is_not_there_is_named():
    table = pd.DataFrame({"a": [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match=r"by must be a column of X, got by='b'.*\['a'\]"):
        BalancedCoreset(2, by="b").fit(table)


@pytest.mark.parametrize("as_given", [list, np.array, pd.Series], ids=["list", "array", "Series"])
def test_a_column_of_words_is_balanced_by_its_values(as_given):
    words = ["often"] * 60 + ["seldom"] * 40
    few, _ = BalancedCoreset(10, random_state=0).fit(as_given(words)).take(words)
    assert few.count("often") == 6


def test_rows_that_are_no_table_need_a_function():
    images = np.random.default_rng(0).normal(size=(50, 4, 4))
    with pytest.raises(ValueError, match=r"X must be a table, shape \(n, d\), got shape \(50, 4"):
        BalancedCoreset(10).fit(images)
    flat = BalancedCoreset(10, by=lambda X: X.reshape(len(X), -1), random_state=0).fit(images)
    assert len(flat.indices_) == 10


def in_rows(few, w, full, scale):
    """How many rows of the sample a total is off by."""
    return np.abs(w @ few - full.sum(axis=0)) * len(w) / len(full) / scale


@pytest.mark.parametrize("seed", range(12))
def test_every_column_is_within_one_row_on_random_tables(seed):
    """Three words, a share of each, and three numbers: fifteen totals at once."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(300, 3000))
    words = [rng.integers(0, k, n) for k in (2, 3, 4)]
    columns = np.column_stack([*(np.eye(k)[v] for k, v in zip((2, 3, 4), words, strict=True))])
    numbers = rng.standard_t(4, size=(n, 3))
    table = pd.DataFrame(
        {f"word {i}": np.array(list("abcd"))[v] for i, v in enumerate(words)}
        | {f"number {i}": numbers[:, i] for i in range(3)}
    )
    selector = BalancedCoreset(60, random_state=seed).fit(table)
    drawn = selector.indices_
    w = selector.weights_
    # one of 144 totals may be off by a little more, as rows are whole
    assert in_rows(columns[drawn], w, columns, 1.0).max() < 1.2
    largest = np.abs(numbers - numbers.mean(axis=0)).max(axis=0)
    assert (in_rows(numbers[drawn], w, numbers, largest) < 1).all()


def test_landings_are_nearer_than_a_single_walk(monkeypatch):
    """The mean over draws of the largest error among twelve totals, with and without a choice."""
    rng = np.random.default_rng(0)
    probabilities = np.full(120, 0.25)
    columns = np.column_stack([probabilities, rng.normal(size=(120, 11))])

    def worst():
        drawn = [cube_sample(columns, probabilities, rng) for _ in range(80)]
        return np.mean([np.abs(total_error(columns, probabilities, one)).max() for one in drawn])

    chosen = worst()
    monkeypatch.setattr(cube, "N_LANDINGS", 1)
    assert chosen < 0.8 * worst()


def test_rows_in_many_blocks_are_balanced_as_rows_in_memory_are():
    rng = np.random.default_rng(12)
    n = 6000
    X = rng.normal(size=(n, 4)) + np.linspace(0, 3, n)[:, None]
    y = np.where(rng.random(n) < 0.3, "rare", "often")

    def off(**how):
        found = []
        for seed in range(4):
            selector = BalancedCoreset(50, random_state=seed).fit(*how["rows"])
            found.append(selector.weights_ @ X[selector.indices_] / n - X.mean(axis=0))
            assert abs(np.count_nonzero(y[selector.indices_] == "rare") - 15) <= 2
        return np.sqrt(np.mean(np.square(found)))

    assert off(rows=(Blocks(X, y, rows=300),)) < 2 * off(rows=(X, y))


def test_weights_of_any_size_change_no_draw():
    rng = np.random.default_rng(13)
    X = rng.normal(size=(300, 3))
    weights = rng.gamma(1.0, size=300)
    chosen = [
        BalancedCoreset(30, random_state=0).fit(X, sample_weight=weights * scale)
        for scale in (1.0, 1e-300, 1e150)
    ]
    for other in chosen[1:]:
        np.testing.assert_array_equal(other.indices_, chosen[0].indices_)


def _months(n):
    return pd.period_range("1990-01", periods=n, freq="M")


@pytest.mark.parametrize(
    "times",
    [
        pd.date_range("2020-01-01", periods=400, tz="Europe/Paris"),
        pd.date_range("2020-01-01", periods=400).date,
        pd.to_timedelta(np.arange(400), unit="h"),
        _months(400),
        [Decimal(i) for i in range(400)],
        np.arange(400) * 1e300,
    ],
    ids=["zone", "date", "delta", "month", "decimal", "huge"],
)
def test_what_can_be_ordered_is_a_number(times):
    table = pd.DataFrame({"when": times})
    places = np.arange(400)
    found = [
        places[BalancedCoreset(20, random_state=seed).fit(table).indices_].mean()
        for seed in range(10)
    ]
    # the mean of 20 of 400 places at random is off by 25
    assert np.sqrt(np.mean((np.array(found) - places.mean()) ** 2)) < 10


def test_infinity_is_named_with_its_column():
    table = pd.DataFrame({"a": [1.0, np.inf, 2.0, 3.0]})
    with pytest.raises(ValueError, match="column 'a' holds infinity in 1 of 4 rows"):
        BalancedCoreset(2).fit(table)


def test_a_number_in_a_tuple_is_balanced_within_each_cell():
    rng = np.random.default_rng(14)
    table = pd.DataFrame({"town": rng.choice(["n", "s"], 2000), "age": rng.normal(40, 12, 2000)})
    selector = BalancedCoreset(80, by=("town", "age"), random_state=0).fit(table)
    assert selector.n_balanced_ == 3
    few = table.iloc[selector.indices_]
    means = few.groupby("town")["age"].mean() - table.groupby("town")["age"].mean()
    # of forty rows at random it is off by 2
    assert means.abs().max() < 1


def test_whole_numbers_of_a_tuple_are_categories():
    rooms = np.repeat([1, 2, 9], [500, 300, 200])
    few = rooms[BalancedCoreset(10, by=(0,), random_state=0).fit(rooms[:, None]).indices_]
    np.testing.assert_array_equal(np.bincount(few)[[1, 2, 9]], [5, 3, 2])


@pytest.mark.parametrize(
    "by", [["a", "b"], np.array(["a", "b"]), pd.Index(["a", "b"]), ("a", "b"), [("a", "b")]]
)
def test_columns_are_named_by_any_list(by):
    rng = np.random.default_rng(15)
    table = pd.DataFrame({"a": rng.choice(["x", "y"], 90), "b": rng.choice(["u", "v"], 90)})
    selector = BalancedCoreset(20, by=by, random_state=0).fit(table)
    assert selector.n_balanced_ == (3 if isinstance(by, tuple) or isinstance(by[0], tuple) else 2)


def test_a_tuple_that_is_a_name_is_one_column():
    names = pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")])
    table = pd.DataFrame(np.random.default_rng(16).normal(size=(50, 2)), columns=names)
    assert BalancedCoreset(10, by=("a", "x")).fit(table).n_balanced_ == 1
    assert BalancedCoreset(10, by=[("a", "x")]).fit(table).n_balanced_ == 1


@pytest.mark.parametrize("by", [True, [True, False], (), 0.5])
def test_what_is_no_column_is_named(by):
    with pytest.raises(ValueError, match="by must be a column of X, got by="):
        BalancedCoreset(2, by=by).fit(np.eye(4))


def test_an_empty_list_balances_y_alone():
    y = np.repeat(["often", "seldom"], [60, 40])
    selector = BalancedCoreset(10, by=[], random_state=0).fit(np.zeros((100, 3)), y)
    assert np.count_nonzero(y[selector.indices_] == "often") == 6


def test_a_named_column_of_which_nothing_can_be_balanced_is_told():
    table = pd.DataFrame({"id": [f"row {i}" for i in range(60)], "same": "one"})
    with pytest.warns(UserWarning, match="by='id' is not balanced: no value of it can expect"):
        BalancedCoreset(10, by=["id", "same"]).fit(table)


def test_a_function_may_give_a_sparse_matrix_and_must_give_numbers():
    X = sparse.random_array((100, 8), density=0.3, rng=0, format="csr")
    selector = BalancedCoreset(30, by=lambda X: X[:, :3], random_state=0).fit(X)
    assert selector.n_balanced_ == 3
    with pytest.raises(ValueError, match=r"by\(X\) must be finite numbers .* got <U1 of"):
        BalancedCoreset(30, by=lambda X: np.full((100, 1), "a")).fit(X)


@pytest.mark.parametrize("form", ["pandas", "arrow", "arrow in pandas"])
def test_categories_that_are_numbers_are_balanced_by_their_shares(form):
    pa = pytest.importorskip("pyarrow")
    codes = np.random.default_rng(0).integers(0, 10, 3000)
    dictionary = pa.array(codes).dictionary_encode()
    column = {
        "pandas": pd.Categorical(codes),
        "arrow": dictionary,
        "arrow in pandas": pd.arrays.ArrowExtensionArray(pa.chunked_array([dictionary])),
    }[form]
    table = pa.table({"c": column}) if form == "arrow" else pd.DataFrame({"c": column})
    found = BalancedCoreset(100, by=["c"], random_state=0).fit(table)
    drawn = np.bincount(codes[found.indices_], found.weights_, minlength=10)
    assert np.abs(drawn - np.bincount(codes)).max() <= 30.0 + 1e-6  # of a row


@pytest.mark.parametrize("by", ["a column", "classes", "pairs"])
def test_values_are_common_by_their_weight_as_by_repeated_rows(by):
    names = np.repeat([*"abcde", "D"], [15] * 5 + [1925])
    times = np.repeat([20, 1], [75, 1925])
    repeated = np.repeat(names, times)

    def spread(values, weights):
        table = pd.DataFrame({"one": values, "two": values})
        X = table if by == "pairs" else table[["one"]]
        y = values if by == "classes" else None
        chosen = BalancedCoreset(100, by=[("one", "two")] if by == "pairs" else None)
        totals = []
        for seed in range(40):
            chosen.set_params(random_state=seed).fit(X, y, sample_weight=weights)
            kept = values[chosen.indices_]
            totals.append([chosen.weights_[kept == value].sum() for value in "abcde"])
        return np.std(totals, axis=0).mean()

    assert spread(names, times.astype(float)) < 1.3 * spread(repeated, None)
