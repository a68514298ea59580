"""The checks that estimators share: what is bad is refused by name, what is good passes."""

import importlib
import inspect
import pkgutil
import re
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import get_type_hints

import handful
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from frames import LIBRARIES, frame_of
from handful import (
    BilevelCoreset,
    KCenter,
    LeastSquares,
    Logistic,
    MatchedCoreset,
    SVMCoreset,
    UniformCoreset,
)
from handful.active.acquisition import Acquisition
from handful.bilevel.strategy import Strategy
from handful.checks import (
    as_generator,
    check_integer,
    check_labels,
    check_magnitude,
    check_number,
    check_rows,
    check_sample_weight,
    check_size,
    training_named,
    validate_data,
)
from handful.clustering import Medoids
from handful.continual import ReplayBuffer
from handful.dictionary import MeasurementSelector
from handful.dictionary.recovery import Recovery
from handful.models import Network, Poisson, Problem
from handful.models.inverse import InverseHessian
from handful.models.network import TrainConfig
from handful.options import check_option
from handful.proxies import RBF
from handful.proxies.kernels import Kernel
from handful.sampling.sampler import Sampler
from handful.svm import LinearSVM
from scipy import sparse
from scipy.sparse import csc_array
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

X = np.random.default_rng(0).normal(size=(30, 3))
y = np.tile([0, 1], 15)


@pytest.mark.parametrize("value", [0, 1, np.int64(4), np.uint8(2)])
def test_integers_within_the_limits_pass(value):
    check_integer("size", value, least=0, most=4)


@pytest.mark.parametrize(
    "value", [True, np.True_, 2.0, np.float64(2), "2", None, np.nan, np.array(2), -1, 5]
)
def test_what_is_no_integer_within_the_limits_is_refused(value):
    with pytest.raises(
        ValueError, match=r"^size must be an integer of at least 0 and at most 4, got size="
    ):
        check_integer("size", value, least=0, most=4)


@pytest.mark.parametrize("value", [1, 0.5, np.float32(0.25), np.int8(1), Fraction(1, 3)])
def test_numbers_within_the_limits_pass(value):
    check_number("share", value, above=0, most=1)


@pytest.mark.parametrize(
    "value", [0, -1.0, 1.5, np.nan, np.inf, -np.inf, True, "1", None, 1j, 10**400]
)
def test_what_is_no_number_within_the_limits_is_refused(value):
    with pytest.raises(
        ValueError, match=r"^share must be a finite number greater than 0 and at most 1, got share="
    ):
        check_number("share", value, above=0, most=1)


def test_closed_limits_are_allowed_and_open_ones_are_not():
    check_number("x", 0, least=0, below=1)
    check_number("x", -1e308)
    with pytest.raises(
        ValueError, match=r"^x must be a finite number of at least 0 and less than 1, got x=1\.$"
    ):
        check_number("x", 1, least=0, below=1)
    with pytest.raises(ValueError, match=r"^x must be a finite number, got x=nan\.$"):
        check_number("x", np.nan)


def test_the_message_ends_with_the_owner_and_the_reason_that_were_given():
    with pytest.raises(
        ValueError, match=r"^l2 of Logistic must be .* greater than 0, got l2=0: no penalty\.$"
    ):
        check_number("l2", 0, above=0, of=Logistic(), why="no penalty")


def test_a_size_beyond_the_rows_is_refused_under_its_own_name():
    check_size(9, 5, 7, repeats=True)
    with pytest.raises(
        ValueError, match=r"k must be at most .* got k=6 for n_samples=7 of which 5 have a positive"
    ):
        check_size(6, 5, 7, name="k")


# Every option of every public class --------------------------------------------------------------


def is_checked(name, hint):
    try:
        check_option(name, "no such thing", hint, None)
    except ValueError:
        return True
    return False


# Modules of the objects that have the options of a string, such as ihvp="exact".
OPTION_OBJECTS = ("handful.models.inverse", "handful.models.network", "handful.bilevel.exchange")


def with_options():
    """The public classes of the library with options that are checked: (class, names of those
    options)."""
    for room in [
        "handful",
        *(m.name for m in pkgutil.iter_modules(handful.__path__, "handful.") if m.ispkg),
        *OPTION_OBJECTS,
    ]:
        module = importlib.import_module(room)
        public = [getattr(module, name) for name in dir(module) if name[0] != "_"]
        for cls in {one for one in public if inspect.isclass(one)}:
            if cls.__module__.startswith("handful."):
                hints = get_type_hints(cls, include_extras=True) if issubclass(cls, Sampler) else {}
                hints |= (
                    {field.name: field.type for field in fields(cls)} if is_dataclass(cls) else {}
                )
                named = {name for name, hint in hints.items() if is_checked(name, hint)}
                if named and (found := named & inspect.signature(cls).parameters.keys()):
                    yield cls, found


OPTIONS = {cls.__name__: (cls, found) for cls, found in with_options()}
GIVEN = dict(
    estimator=LogisticRegression(),
    selector=UniformCoreset(),
    kernel=RBF(),
    module=torch.nn.Linear(3, 2),
    n=9,
    capacity=9,
    problem_a=Logistic(),
    problem_b=Logistic(),
    probabilities=np.eye(4),
)
# what makes an object look at its options
USES = {
    Problem: lambda one: BilevelCoreset(one, size=8).fit(X, y),
    Strategy: lambda one: BilevelCoreset(size=8, strategy=one).fit(X, y),
    InverseHessian: lambda one: BilevelCoreset(size=8, ihvp=one).fit(X, y),
    TrainConfig: lambda one: BilevelCoreset(
        Network(GIVEN["module"], train=one), size=8, rule="linear"
    ).fit(X, y),
    Recovery: lambda one: MeasurementSelector(recovery=one, size=2).fit(X),
    Kernel: lambda one: one(X),
    Acquisition: lambda one: one.query(2, features=X, probabilities=np.full((30, 2), 0.5)),
    ReplayBuffer: lambda one: one.add(X, y),
    object: lambda one: one.fit(X, y),
}


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_every_option_of_every_class_is_looked_at_and_refused_by_name(name):
    cls, options = OPTIONS[name]
    needed = {
        key: GIVEN[key]
        for key, p in inspect.signature(cls).parameters.items()
        if p.default is p.empty
    }
    use = next(USES[base] for base in USES if issubclass(cls, base))
    for option in options:
        with pytest.raises(
            ValueError, match=rf"^{option} of {name} must .* got {option}=.no such thing"
        ):
            use(cls(**needed | {option: "no such thing"}))


def test_options_of_every_subpackage_were_found():
    assert {
        "VCGMM",
        "Forward",
        "Exact",
        "Exchange",
        "Logistic",
        "CNTK",
        "L1",
        "KMeansQuery",
        "TrainConfig",
        "BanditSampler",
    } <= set(OPTIONS)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 2], r"shape \(3,\), one weight a row, got \(2,\)"),
        ([[1], [2], [3]], r"shape \(3,\), one weight a row, got \(3, 1\)"),
        ([1, -0.5, 1], "must not be negative, got -0.5 at row 1"),
        ([0, 0, 0], "zero for all 3 rows"),
        ([1, np.nan, 1], "sample_weight contains NaN"),
        ([1, np.inf, 1], "sample_weight contains infinity"),
        ([1e308, 1e308, 1], "a sum of at least 2e-308 and below 1e154, got inf"),
        ([5e-324, 0, 0], "a sum of at least 2e-308 and below 1e154, got 4.94e-324"),
    ],
)
def test_a_bad_sample_weight_is_named(weights, message):
    with pytest.raises(ValueError, match=message):
        check_sample_weight(weights, 3)


@pytest.mark.parametrize(
    ("selector", "way_out"),
    [
        (BilevelCoreset(size=5), "the problem LeastSquares("),
        (MatchedCoreset(), "the problem LeastSquares("),
        (SVMCoreset(size=5), "BilevelCoreset(LeastSquares("),
    ],
    ids=str,
)
def test_float_targets_are_told_of_least_squares(selector, way_out):
    targets = np.random.default_rng(0).normal(size=30)
    said = rf"^Unknown label type: continuous\. .* there is {re.escape(way_out)}"
    with pytest.raises(ValueError, match=said):
        selector.fit(X, targets)
    assert len(BilevelCoreset(LeastSquares(), size=5).fit(X, targets).indices_) == 5


@pytest.mark.parametrize(
    ("selector", "column"),
    [
        (UniformCoreset(5), X[:, 0]),
        (BilevelCoreset(size=5), X[:, 0]),
        (BilevelCoreset(size=5), X[:, 0].tolist()),
        (BilevelCoreset(size=5), torch.as_tensor(X[:, 0])),
    ],
    ids=["unread", "array", "list", "tensor"],
)
def test_what_is_no_table_is_told_by_its_shape_and_not_printed(selector, column):
    said = r"^Expected 2D array, got 1D array instead: X has shape \(30,\)\.\nReshape your data "
    with pytest.raises(ValueError, match=said) as refused:
        selector.fit(column, y)
    assert "array=" not in str(refused.value)
    # A traceback has no other message, either.
    assert refused.value.__suppress_context__


def with_gaps(gap):
    rows = X.copy()
    rows[[4, 4, 9], [1, 2, 0]] = gap
    return rows


@pytest.mark.parametrize(
    ("rows", "where"),
    [
        (with_gaps(np.nan), "NaN: 2 of 30 rows, the first at row 4 of column 1. Leave out"),
        (pd.DataFrame(with_gaps(np.nan), columns=[*"abc"]), "row 4 of column 'b'. Leave out"),
        (
            pd.DataFrame(with_gaps(np.nan), columns=[*"abc"]).convert_dtypes(),
            "NaN: 2 of 30 rows, the first at row 4 of column 'b'. Leave out",
        ),
        (with_gaps(np.nan).tolist(), "NaN: 2 of 30 rows, the first at row 4 of column 1."),
        (torch.as_tensor(with_gaps(np.nan)), "NaN: 2 of 30 rows, the first at row 4 of column 1."),
        (csc_array(with_gaps(np.nan)), "NaN: 2 of 30 rows, the first at row 4 of column 1."),
        (with_gaps(np.inf), "('float64'): 2 of 30 rows, the first at row 4 of column 1. Leave"),
        (csc_array(with_gaps(-np.inf)), "2 of 30 rows, the first at row 4 of column 1. Leave"),
    ],
    ids=["array", "frame", "NA", "list", "tensor", "sparse", "inf", "sparse -inf"],
)
def test_the_first_row_without_a_number_is_named(rows, where):
    said = f"Input X contains .*{re.escape(where)}"
    with pytest.raises(ValueError, match=said):
        BilevelCoreset(size=5).fit(rows, y)
    with pytest.raises(ValueError, match=said):
        check_rows(rows, accept_sparse=True)


def test_columns_of_arrow_are_named():
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table(dict(zip("abc", with_gaps(np.nan).T)))
    for refused in (lambda: BilevelCoreset(size=5).fit(table, y), lambda: check_labels(table)):
        with pytest.raises(ValueError, match="2 of 30 rows, the first at row 4 of column 'b'"):
            refused()


def test_the_first_weight_without_a_number_is_named():
    # A weight is not filled in.
    message = r"sample_weight contains NaN: 1 of 30 rows, .* row 2\. Leave out such rows\.$"
    with pytest.raises(ValueError, match=message):
        UniformCoreset(5).fit(X, sample_weight=np.where(np.arange(30) == 2, np.nan, 1.0))


@pytest.mark.parametrize("problem", [LeastSquares(), Poisson()], ids=str)
@pytest.mark.parametrize("dtype", [object, str])
def test_words_in_place_of_targets_are_told_of_logistic(problem, dtype):
    words = np.where(y, "yes", "no").astype(dtype)
    said = r"^y must hold numbers, got words, such as 'no': .* Logistic\(\.\.\.\)\.$"
    for selector in (BilevelCoreset(problem, size=5), MatchedCoreset(problem)):
        with pytest.raises(ValueError, match=said):
            selector.fit(X, words)
    with pytest.raises(
        ValueError, match=r"^penalties must hold numbers, got words, such as 'a'\.$"
    ):
        MatchedCoreset(penalties=["a", "b"]).fit(X, y)


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        (BilevelCoreset(size=5), "at least 2 classes"),
        (MatchedCoreset(), "at least 2 classes"),
        (LinearSVM(), "at least 2 classes"),
        (SVMCoreset(size=5), "exactly 2 classes"),
    ],
    ids=str,
)
def test_one_class_is_told_how_many_there_may_be(selector, wanted):
    with pytest.raises(ValueError, match=f"one class only: .* needs {wanted}, got 1 class"):
        selector.fit(X, np.zeros(30))


@pytest.mark.parametrize(("dtype", "limit"), [(np.float32, 4e9), (np.float64, 1e77)])
def test_values_up_to_the_limit_do_not_overflow_and_larger_ones_are_refused(dtype, limit):
    values = np.array([0.9 * limit, -0.9 * limit], dtype=dtype)
    check_magnitude(values, "X", dtype)
    assert np.isfinite(values**4).all()
    for sign in (1, -1):
        with pytest.raises(
            ValueError, match=r"X must not have entries larger than [14]e\+.* got .* scale the data"
        ):
            check_magnitude(np.array([0, sign * 1.3 * limit], dtype=dtype), "X", dtype)


def test_a_generator_comes_from_all_that_scikit_learn_takes():
    draws = [as_generator(state).random() for state in (0, np.int64(0), np.random.default_rng(0))]
    assert draws[0] == draws[1] == draws[2]
    same = [as_generator(np.random.RandomState(0)).random() for _ in range(2)]
    assert same[0] == same[1]
    assert as_generator(None).random() != as_generator(None).random()
    with pytest.raises(ValueError, match="random_state must be"):
        as_generator("zero")


WORDS = pd.DataFrame({"a": X[:, 0], "n": "1.5", "town": "u", "street": [None, "v", "w"] * 10})


@pytest.mark.parametrize(
    "selector",
    [
        handful.MatchedCoreset(size=5),
        BilevelCoreset(size=5),
        handful.SVMCoreset(size=5),
        handful.LogisticSensitivity(size=5),
        handful.VCGMM(2),
        handful.KCenter(5),
        handful.AnyEstimatorCoreset(LogisticRegression(), size=5),
    ],
)
@pytest.mark.parametrize("kind", [object, "category", "string"])
def test_columns_of_words_are_named_with_the_way_out(selector, kind):
    frame = WORDS.astype({"n": object, "town": kind, "street": kind})
    said = r"Columns {}, {} of X hold words: encode.*OneHotEncoder"
    for rows, names in ((frame, ("'town'", "'street'")), (frame.to_numpy(object), (2, 3))):
        with pytest.raises(ValueError, match=said.format(*names)):
            selector.fit(rows, y)
    with pytest.raises(ValueError, match=r"Column 1 of X holds words"):
        selector.fit([[1.0, "u"]] * 30, y)


@pytest.mark.parametrize(
    "selector", [handful.MatchedCoreset(size=20), BilevelCoreset(size=5), handful.KCenter(5)]
)
def test_columns_of_dates_are_named_with_a_way_out_that_works(selector):
    days = pd.to_datetime("2020-01-31") + pd.to_timedelta(np.arange(30) % 7, "D")
    X = pd.DataFrame({"n": np.linspace(-1, 1, 30), "day": days, "until": days[::-1]})
    labels = np.arange(30) % 2
    with pytest.raises(ValueError, match="Columns 'day', 'until' of X hold dates") as caught:
        selector.fit(X, labels)
    way_out = str(caught.value).partition("for example ")[2].partition(", or leave")[0]
    assert eval(way_out, {"X": X}).tolist() == (np.arange(30) % 7).tolist()
    with pytest.raises(ValueError, match="Column 'until' of X holds dates"):
        selector.fit(X.assign(day=eval(way_out, {"X": X})), labels)


@pytest.mark.parametrize(
    "call",
    [
        lambda model, rows: handful.suspects(model, rows, y),
        lambda model, rows: handful.CoresetEstimator(UniformCoreset(9), model).fit(rows, y),
        lambda model, rows: handful.compare([UniformCoreset()], model, rows, y, sizes=[9]),
        lambda model, rows: handful.compare([BilevelCoreset()], model, rows, y, sizes=[9]),
    ],
)
def test_columns_of_words_that_the_estimator_cannot_read_are_named_once(call):
    with pytest.raises(ValueError, match="Columns 'town', 'street' of X hold words") as caught:
        call(LogisticRegression(), WORDS)
    assert str(caught.value).count("hold words") == 1


@pytest.mark.parametrize("step", ["passthrough", None])
def test_a_step_that_passes_rows_on_stands_in_the_example_as_it_is(step):
    gaps = np.full((4, 2), np.nan)
    model = Pipeline([("nothing", step), ("last", LogisticRegression())])
    example = rf"make_pipeline\(SimpleImputer\(\), {step!r}, LogisticRegression\(\)\)"
    with pytest.raises(ValueError, match=example), training_named(model, gaps):
        model.fit(gaps, [0, 1, 0, 1])


def test_an_error_of_training_without_words_stays_what_it_is():
    with pytest.raises(ValueError, match=r"^$"), training_named(LogisticRegression(), WORDS):
        raise ValueError


def test_columns_of_texts_are_told_from_those_of_categories():
    texts = [f"the red cat of house {k} sleeps" for k in range(60)]
    towns = ["New York on Hudson", "Frankfurt on the Main"] * 30
    frame = pd.DataFrame({"text": texts, "town": towns, "x": np.arange(60.0)})
    both = "TfidfVectorizer for the texts of 'text', OneHotEncoder or OrdinalEncoder for others in"
    for columns, said in [
        (["text", "town", "x"], both),
        (["text", "x"], "scikit-learn's TfidfVectorizer for the texts of 'text' in"),
        (["town", "x"], "scikit-learn's OneHotEncoder or OrdinalEncoder in"),
    ]:
        with pytest.raises(ValueError, match=said):
            handful.KCenter(5).fit(frame[columns])


@pytest.mark.parametrize("of_library", LIBRARIES)
def test_words_of_a_frame_of_any_library_are_told_by_their_column(of_library, rng):
    frame = pd.DataFrame({"a": rng.normal(size=30), "g": ["u", "v"] * 15})
    made = frame_of(of_library, frame)
    with pytest.raises(ValueError, match="Column 'g' of X holds words: encode them as numbers"):
        KCenter(5).fit(made)


@pytest.mark.parametrize("with_gaps", [False, True])
@pytest.mark.parametrize(
    "column",
    [
        pd.date_range("2020", periods=30),
        pd.timedelta_range("1h", periods=30),
        pd.period_range("2020-01", periods=30, freq="M"),
    ],
    ids=["dates", "times", "periods"],
)
def test_dates_and_times_are_named_with_a_line_that_makes_numbers(column, with_gaps, rng):
    X = pd.DataFrame({"a": rng.normal(size=30), "when": column})
    if with_gaps:
        X["gaps"] = pd.array([1, None] * 15, dtype="Int64")
    with pytest.raises(ValueError, match="Column 'when' of X holds dates or times") as caught:
        KCenter(5).fit(X)
    line = re.search("for example (.*), or leave", str(caught.value)).group(1)
    X["when"] = eval(line)
    assert X["when"].is_monotonic_increasing
    KCenter(5).fit(X[["a", "when"]])


@pytest.mark.parametrize(
    "rows",
    [
        pd.DataFrame({"when": pd.date_range("2020", periods=30, tz="UTC")}),
        pd.DataFrame({"when": pd.timedelta_range("1h", periods=30)}),
        pl.DataFrame({"when": np.arange(30).astype("datetime64[D]")}),
        pa.table({"when": np.arange(30).astype("datetime64[s]")}),
        np.arange(30).astype("datetime64[D]")[:, None],
    ],
    ids=["pandas", "spans", "polars", "arrow", "numpy"],
)
def test_dates_alone_are_no_numbers(rows):
    # numpy would read them as units since 1970
    for selector in (KCenter(5), BilevelCoreset(size=5), handful.MatchedCoreset(size=20)):
        with pytest.raises(ValueError, match="X holds dates or times"):
            selector.fit(rows, np.arange(30) % 2)
    with pytest.raises(ValueError, match="y holds dates or times"):
        BilevelCoreset(LeastSquares(), size=5).fit(
            np.eye(30), np.arange(30).astype("datetime64[D]")
        )
    line = "(X - X.min()) / numpy.timedelta64(1, 'D')"
    if isinstance(rows, np.ndarray):
        KCenter(5).fit(eval(line, {"X": rows, "numpy": np}))


def test_rows_and_labels_in_the_wrong_order_are_told_the_order(rng):
    X = rng.normal(size=(60, 3))
    for selector in (handful.MatchedCoreset(), SVMCoreset(20), handful.StratifiedCoreset(20)):
        with pytest.raises(ValueError, match=r"got shape \(60, 3\); the order is fit\(X, y\)"):
            selector.fit(np.arange(60) % 2, X)


def test_sparse_rows_are_told_what_takes_them(rng):
    X = sparse.random(60, 40, density=0.2, format="csr", random_state=0)
    for selector in (Medoids(5), handful.MatchedCoreset(size=20)):
        with pytest.raises(TypeError, match=r"X is sparse, shape \(60, 40\), and .*TruncatedSVD"):
            selector.fit(X, np.arange(60) % 2)
    BilevelCoreset(size=5, random_state=0).fit(X, np.arange(60) % 2)


def test_words_beside_a_column_with_gaps_are_named(rng):
    X = pd.DataFrame({"a": rng.normal(size=30), "word": pd.Categorical(["u", "v"] * 15)})
    X["gaps"] = pd.array([1, None] * 15, dtype="Int64")
    with pytest.raises(ValueError, match="Column 'word' of X holds words"):
        KCenter(5).fit(X)


def test_words_among_numbers_are_named_by_their_row():
    y = np.array(["yes", "no"] * 10, dtype=object)
    y[7] = 1
    with pytest.raises(ValueError, match=r"y mixes words and numbers: 'yes' in row 0, 1 in row 7"):
        check_labels(y)
    y[0] = 0
    with pytest.raises(ValueError, match=r"0 in row 0, 'no' in row 1"):
        check_labels(y)
    check_labels(np.array([0, 1.5, True], dtype=object))
    check_labels(["yes", "no"])


@pytest.mark.parametrize(
    "selector",
    [BilevelCoreset(size=5), MatchedCoreset(), SVMCoreset(20), handful.StratifiedCoreset(20)],
    ids=str,
)
def test_classes_that_are_numbers_in_a_column_of_objects_are_told_how_to_become_labels(selector):
    labels = np.arange(30) % 2
    with pytest.raises(
        ValueError, match=r"objects, such as 0\. Give .* such as y\.astype\(int\)\.$"
    ):
        selector.fit(X, labels.astype(object))
    selector.fit(X, labels.astype(object).astype(int))
    selector.fit(X, np.array(["yes", "no"], dtype=object)[labels])


def test_labels_checked_alone_leave_the_names_of_the_columns():
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    chosen = UniformCoreset(5).fit(frame)
    validate_data(chosen, y=np.arange(30) % 2)
    assert list(chosen.feature_names_in_) == list(frame.columns)


def test_rows_of_weight_zero_are_not_counted_and_the_message_says_so():
    rows = np.where(np.arange(90).reshape(30, 3) == 62, np.nan, X)
    weights = np.where(np.arange(30) < 10, 0.0, 1.0)
    with pytest.raises(ValueError, match=r"first at row 10 .*without the 10 of weight zero"):
        KCenter(5).fit(rows, sample_weight=weights)


def test_one_number_for_all_weights_is_told_the_shape():
    with pytest.raises(ValueError, match=r"shape \(30,\), one weight a row, got 3\.0"):
        UniformCoreset(5).fit(X, sample_weight=3.0)


def test_what_has_no_rows_is_told_what_has():
    for nothing in ({"a": X}, 5, {1, 2}):
        with pytest.raises(ValueError, match="rows are taken of arrays, frames and lists, got"):
            handful.Coreset([5], [1.0]).take(nothing)
