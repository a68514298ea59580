"""Labels that are missing, and several of a row: who looks at y refuses them by name, who does not
takes them.

After scikit-activeml issues 6 and 35, and imbalanced-learn issues 340, 543 and 1123.
"""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from contracts.test_contracts import EVERY, TRANSFORMERS, learned, table
from handful import (
    BilevelCoreset,
    CoresetEstimator,
    KCenter,
    LeastSquares,
    LinearSVM,
    Logistic,
    MatchedCoreset,
    MergeReduce,
    Selector,
    StratifiedCoreset,
    UniformCoreset,
    compare,
    influence,
    suspects,
)
from handful.active import BilevelQuery
from handful.blocks import Blocks
from handful.checks import check_labels
from handful.continual import ReplayBuffer
from handful.models import GaussianMixture
from handful.sampling import group_components
from handful.streaming import Reservoir, ReservoirCoreset
from handful.tables import missing
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge

X, y, _ = table("normal", 1, n=60)
WORDS = np.where(y, "yes", "no")
GONE = np.arange(60) % 10 == 3
FIRST = r"y has missing labels: 6 of 60 rows, the first at row 3"

MISSING = {
    "None among words": np.where(GONE, None, WORDS),
    "a list of words and None": np.where(GONE, None, WORDS).tolist(),
    "a list of words and NaN": [float("nan") if gone else word for gone, word in zip(GONE, WORDS)],
    "NaN among words": pd.Series(WORDS).where(~GONE),
    "NA among strings": pd.Series(WORDS, dtype="string").where(~GONE),
    "categories": pd.Series(WORDS, dtype="category").where(~GONE),
    "NA among booleans": pd.Series(y > 0, dtype="boolean").where(~GONE),
    "NA among integers": pd.Series(y, dtype="Int64").where(~GONE),
    "NA among objects": pd.Series(y, dtype=object).where(~GONE, pd.NA),
    "NaN among numbers": np.where(GONE, np.nan, y),
    "NaN of a tensor": torch.as_tensor(np.where(GONE, np.nan, y)).bfloat16(),
    "times": pd.Series(pd.to_datetime("2020-01-01") + pd.to_timedelta(y, "D")).where(~GONE),
    "masked": np.ma.array(y, mask=GONE),
}
SELECTORS = [one for one in EVERY if isinstance(one, Selector)]
SELECTORS += [StratifiedCoreset(6, by=0)]
of_selectors = pytest.mark.parametrize(
    "selector", SELECTORS, ids=lambda one: " ".join(repr(one).split())
)


def chosen(selector, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(selector).set_params(random_state=0).fit(*data)


def coarse(X):
    # so that a column has strata
    return np.round(X)


# Who looks at y ----------------------------------------------------------------------------------


@of_selectors
def test_who_does_not_look_at_y_says_so_and_who_says_so_does_not(selector):
    assert selector._accepts.reads_y or not selector._accepts.needs_y
    if selector._accepts.needs_y:
        return
    expected = learned(chosen(selector, coarse(X)))["indices_"].tolist()
    many = (y, WORDS, y[::-1]) if selector._accepts.reads_y else (y, WORDS, X)
    found = [learned(chosen(selector, coarse(X), labels))["indices_"].tolist() for labels in many]
    assert any(one != expected for one in found) == selector._accepts.reads_y


@of_selectors
@pytest.mark.parametrize("kind", MISSING)
def test_missing_labels_are_named_by_who_looks_at_them_and_no_matter_to_others(selector, kind):
    if selector._accepts.reads_y:
        with pytest.raises(ValueError, match=FIRST):
            chosen(selector, coarse(X), MISSING[kind])
        return
    expected = learned(chosen(selector, coarse(X)))
    found = learned(chosen(selector, coarse(X), MISSING[kind]))
    np.testing.assert_array_equal(found["indices_"], expected["indices_"])


SEVERAL = {
    "an array": np.column_stack([y, 1 - y, y, y]),
    "a frame": pd.DataFrame({"first": y, "second": WORDS}),
    "lists": np.column_stack([y, y]).tolist(),
    "a tensor": torch.as_tensor(np.column_stack([y, y])),
    "missing ones": np.column_stack([MISSING["NaN among numbers"], y]),
}


@of_selectors
@pytest.mark.parametrize("kind", SEVERAL)
def test_several_labels_a_row_are_refused_by_who_looks_at_them_and_no_matter_to_others(
    selector, kind
):
    if selector._accepts.reads_y:
        # BilevelCoreset knows soft targets, which add up to one.
        with pytest.raises(
            ValueError,
            match=r"one label a row, shape \(60,\).* looks at it|targets|missing|convert",
        ):
            chosen(selector, coarse(X), SEVERAL[kind])
        return
    expected = learned(chosen(selector, coarse(X)))
    found = learned(chosen(selector, coarse(X), SEVERAL[kind]))
    np.testing.assert_array_equal(found["indices_"], expected["indices_"])


@of_selectors
def test_labels_that_nobody_looks_at_are_one_for_each_row_still(selector):
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        chosen(selector, coarse(X), y[:-1])


# The one sentence, everywhere --------------------------------------------------------------------

FOREST = RandomForestClassifier(100, random_state=0)
PAIR = np.column_stack([X[:, 0], np.where(GONE, np.nan, X[:, 0])])
SAID = {
    "LinearSVM": lambda y: LinearSVM().fit(X, y),
    "suspects": lambda y: suspects(FOREST, X, y),
    "influence": lambda y: influence(Logistic(), X, y, X, WORDS),
    "compare": lambda y: compare(
        UniformCoreset(), LogisticRegression(), X, y, sizes=[9], verbose=False
    ),
    "CoresetEstimator": lambda y: CoresetEstimator(UniformCoreset(9), LogisticRegression()).fit(
        X, y
    ),
    "score of LinearSVM": lambda y: LinearSVM().fit(X, WORDS).score(X, y),
    "score of CoresetEstimator": lambda y: fitted_estimator().score(X, y),
    "partial_fit of CoresetEstimator": lambda y: fitted_estimator().partial_fit(X, y),
    "ReplayBuffer": lambda y: ReplayBuffer(StratifiedCoreset(), size=9).add(X, y),
    "MergeReduce": lambda y: MergeReduce(StratifiedCoreset(), size=9).partial_fit(X, y),
    "ReservoirCoreset": lambda y: ReservoirCoreset(UniformCoreset(), size=9).partial_fit(X, y),
}


def fitted_estimator():
    from sklearn.naive_bayes import GaussianNB

    return CoresetEstimator(UniformCoreset(9, random_state=0), GaussianNB()).fit(X, WORDS)


@pytest.mark.parametrize("name", SAID)
@pytest.mark.parametrize("kind", MISSING)
def test_missing_labels_get_one_sentence_everywhere(name, kind):
    with pytest.raises(ValueError, match=FIRST):
        SAID[name](MISSING[kind])


def test_missing_labels_of_further_rows_are_named_as_theirs():
    gone = MISSING["None among words"]
    few = BilevelCoreset(size=6, outer="validation")
    with pytest.raises(ValueError, match=rf"validation: {FIRST}"):
        few.fit(X, WORDS, validation=(X, gone))
    with pytest.raises(ValueError, match=FIRST.replace("y has", "y_test has")):
        influence(Logistic(), X, WORDS, X, gone)
    with pytest.raises(ValueError, match=FIRST.replace("y has", "y of test has")):
        compare(
            UniformCoreset(),
            LogisticRegression(),
            X,
            WORDS,
            test=(X, gone),
            sizes=[9],
            verbose=False,
        )
    with pytest.raises(ValueError, match=FIRST.replace("y has", "labels has")):
        group_components(gone)
    known = dict(features=X, probabilities=np.eye(2)[y], labelled=X, classes=["no", "yes"])
    with pytest.raises(ValueError, match=FIRST.replace("y has", "labels has")):
        BilevelQuery().query(3, labels=gone, **known)
    rows = MatchedCoreset(random_state=0).fit(X, WORDS)
    for ask in (rows.excess, lambda X, y: rows.check(np.zeros((100, X.shape[1] + 1)), X, y)):
        with pytest.raises(ValueError, match=FIRST):
            ask(X, gone)


@pytest.mark.parametrize(
    ("labels", "where"),
    [
        (pd.Series(MISSING["NaN among numbers"], name="species"), "row 3 of column 'species'"),
        (pd.DataFrame({"a": y, "b": MISSING["NA among strings"]}), "row 3 of column 'b'"),
        (PAIR, "row 3 of column 1"),
        (MISSING["NaN among numbers"], r"row 3\. "),
    ],
)
def test_the_column_is_named_where_it_has_a_name(labels, where):
    with pytest.raises(ValueError, match=rf"6 of 60 rows, the first at {where}"):
        check_labels(labels)


def test_labels_that_are_there_are_not_missing():
    for there in (
        y,
        WORDS,
        WORDS.tolist(),
        X,
        pd.Series(y, dtype="Int64"),
        pd.Categorical(WORDS),
        ["nan", "None"],
    ):
        assert not missing(there).any()


@pytest.mark.parametrize(
    "selector", [StratifiedCoreset(9), MatchedCoreset(size=30)], ids=lambda one: type(one).__name__
)
def test_of_rows_in_blocks_the_row_is_that_of_the_whole(selector):
    X, y, _ = table("normal", 2, n=600)
    labels = np.where(np.arange(600) == 457, np.nan, y)
    with pytest.raises(
        ValueError, match=r"row 457 without a label: y has missing|the first at row 457"
    ):
        selector.fit(Blocks(X, labels, rows=200))


# What carries labels that it does not look at ----------------------------------------------------


@pytest.mark.parametrize(
    "labels", [SEVERAL["an array"], PAIR, y[:, None], MISSING["NaN among numbers"]]
)
@pytest.mark.parametrize(
    "stream",
    [
        Reservoir(9, random_state=0),
        MergeReduce(KCenter(), size=9, leaf_size=20, random_state=0),
        MergeReduce(UniformCoreset(), size=9, leaf_size=20, n_slots=2, random_state=0),
        ReservoirCoreset(KCenter(), size=9, balanced=False, random_state=0),
    ],
    ids=lambda one: type(one).__name__,
)
def test_streams_hold_the_labels_as_they_came(stream, labels):
    found = clone(stream).partial_fit(X[:25], labels[:25]).partial_fit(X[25:], labels[25:])
    rows, held, _ = found.rows()
    np.testing.assert_array_equal(rows, X[found.indices_])
    np.testing.assert_array_equal(held, labels[found.indices_])
    expected = clone(stream).partial_fit(X[:25]).partial_fit(X[25:])
    assert found.indices_.tolist() == expected.indices_.tolist()


def test_streams_hold_sparse_labels_too():
    several = sparse.csr_array(SEVERAL["an array"])
    found = MergeReduce(KCenter(), size=9, leaf_size=20, random_state=0)
    found = found.partial_fit(X[:25], several[:25]).partial_fit(X[25:], several[25:])
    np.testing.assert_array_equal(found.rows()[1].toarray(), SEVERAL["an array"][found.indices_])


def test_a_chunk_with_other_columns_of_labels_is_refused_when_it_comes():
    stream = MergeReduce(KCenter(), size=9, leaf_size=20).partial_fit(X, SEVERAL["an array"])
    for other in (y, y[:, None], SEVERAL["an array"][:, :2]):
        with pytest.raises(ValueError, match="in y, but the stream so far has"):
            stream.partial_fit(X, other)
    assert stream.rows()[1].shape == (9, 4)


def test_estimators_of_several_targets_train_on_the_rows_of_one_who_does_not_look():
    several = SEVERAL["an array"]
    few = UniformCoreset(30, random_state=0)
    model = CoresetEstimator(few, FOREST).fit(X, several)
    by_hand = clone(FOREST).fit(*few.fit(X).take(X, several)[:2], sample_weight=few.weights_)
    np.testing.assert_array_equal(model.predict(X), by_hand.predict(X))
    assert CoresetEstimator(few, Ridge()).fit(X, X[:, :1]).score(X, X[:, :1]) > 0.9
    found = compare(KCenter(), FOREST, X, several, sizes=[20], seeds=1, verbose=False)
    assert found.frame["score"].notna().all()
    memory = ReplayBuffer(KCenter(), size=9, random_state=0).add(X, several)
    assert memory.rows()[1].shape == (9, 4)


def test_a_problem_without_targets_does_not_look_at_them():
    few = BilevelCoreset(GaussianMixture(2), size=2, random_state=0)
    expected = few.fit(X[:20]).indices_.tolist()
    for labels in (SEVERAL["an array"], MISSING["None among words"]):
        assert few.fit(X[:20], labels[:20]).indices_.tolist() == expected


def test_labels_come_back_as_they_were_missing():
    words = MISSING["a list of words and NaN"]
    few = KCenter(30, random_state=0).fit(X, words)
    np.testing.assert_array_equal(missing(few.take(X, words)[1]), GONE[few.indices_])
    stream = Reservoir(30, random_state=0).fit(X, words)
    np.testing.assert_array_equal(missing(stream.rows()[1]), GONE[stream.indices_])


def test_a_label_that_is_missing_is_no_class_that_a_draw_has_lost():
    rare = np.where(np.arange(60) == 0, None, "common")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        UniformCoreset(9, random_state=0).fit(X, rare)


def test_labels_may_be_tensors_wherever_they_may_be_arrays():
    given = torch.as_tensor(y).requires_grad_(False)
    for one in [*EVERY, *TRANSFORMERS]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = clone(one).fit(X, given)
            expected = clone(one).fit(X, y)
        for name, value in learned(expected).items():
            np.testing.assert_array_equal(learned(found)[name], value)
    targets = torch.as_tensor(X[:, 0]).bfloat16().requires_grad_()
    rows = BilevelCoreset(LeastSquares(), size=6, random_state=0).fit(X, targets)
    assert len(rows.take(X, targets)[1]) == 6
