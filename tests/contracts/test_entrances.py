"""Every way in: methods that are given rows, found by their signatures, say of every form of a
table the same.

A table has one answer, however it is stored: a sparse entry in parts (scipy issues 5807 and 11809),
rows in half precision (huggingface/trl issue 1391), a memory map. `test_contracts` has what holds
of fits alone.
"""

import inspect
import pickle
import warnings
from dataclasses import asdict, is_dataclass

import numpy as np
import pytest
import torch
from contracts.test_contracts import EVERY, IN_MEMORY, ROUGH, TRANSFORMERS, learned
from contracts.test_selectors import of_the_library
from handful import (
    AnyEstimatorCoreset,
    BilevelCoreset,
    CoresetEstimator,
    KCenter,
    KMeansPlusPlus,
    LeastSquares,
    LightweightCoreset,
    Logistic,
    MatchedCoreset,
    MergeReduce,
    SVMCoreset,
    UniformCoreset,
    compare,
)
from handful.active import MaxEntropyQuery
from handful.blocks import Blocks
from handful.continual import ReplayBuffer
from handful.dictionary import L1, L2
from handful.sampling import MixtureSampler, PrioritizedReplay, group_components
from handful.sampling.sampler import Sampler
from handful.tables import canonical
from scipy import sparse
from sklearn.base import clone
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

# what passes rows on to something else
MORE = [
    CoresetEstimator(KMeansPlusPlus(9, random_state=0), MultinomialNB()),
    CoresetEstimator(KCenter(9, random_state=0), StandardScaler(with_mean=False)),
    MergeReduce(KCenter(), size=6, leaf_size=30, random_state=0),
    AnyEstimatorCoreset(LinearSVC(), size=6, n_draws=2, n_exchanges=2, random_state=0),
    AnyEstimatorCoreset(
        make_pipeline(StandardScaler(with_mean=False), LinearSVC()), size=6, random_state=0
    ),
    BilevelCoreset(LeastSquares(), size=6, random_state=0),
    MatchedCoreset(LeastSquares(), random_state=0),
]
ASKED = [*EVERY, *TRANSFORMERS, *MORE]
each = pytest.mark.parametrize("estimator", ASKED, ids=lambda e: " ".join(repr(e).split()))
TAKES_ROWS = ("fit", "partial_fit", "fit_predict", "fit_transform")
# Numbers of compared trainings that end where the loss falls no longer, as in `test_contracts`.
LOOSE = {"AnyEstimatorCoreset": 1e-2}


def counts():
    """A table of small numbers, exact in any type, with zeros; and labels of two classes."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((120, 6)) < 0.4, rng.integers(1, 6, (120, 6)), 0).astype(float)
    return X, (X[:, 0] - X[:, 1] + rng.normal(size=120) > 0).astype(int)


X, Y = counts()


# Forms of one table ------------------------------------------------------------------------------


def in_parts(X):
    """CSR that stores an entry k as k ones, as scipy's own example of a matrix of terms does."""
    times = X.ravel().astype(int)
    column = np.repeat(np.tile(np.arange(X.shape[1]), len(X)), times)
    ends = np.append(0, np.cumsum(times.reshape(X.shape).sum(axis=1)))
    return sparse.csr_matrix((np.ones(len(column)), column, ends), shape=X.shape)


def with_old_flags(X):
    """In parts, made so in place after scipy had looked."""
    whole = in_parts(X)
    late = sparse.csr_matrix(
        (whole.data, np.arange(len(whole.indices)), whole.indptr), shape=(len(X), len(whole.data))
    )
    assert late.has_canonical_format
    late.indices[:] = whole.indices
    late._shape = X.shape
    return late


def unsorted(X):
    rows = sparse.csr_array(X)
    for a, b in zip(rows.indptr, rows.indptr[1:]):
        rows.indices[a:b], rows.data[a:b] = (
            rows.indices[a:b][::-1].copy(),
            rows.data[a:b][::-1].copy(),
        )
    return sparse.csr_array((rows.data, rows.indices, rows.indptr), shape=X.shape)


def with_zeros(X):
    rows = sparse.csr_matrix(np.ones(X.shape))
    rows.data[:] = X.ravel()
    return rows


def with_long_indices(X):
    rows = in_parts(X)
    rows.indices, rows.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    return rows


def read_only(X):
    rows = in_parts(X)
    for array in (rows.data, rows.indices, rows.indptr):
        array.flags.writeable = False
    return rows


def columns_in_parts(X):
    other = in_parts(X.T)
    return sparse.csc_matrix((other.data, other.indices, other.indptr), shape=X.shape)


def blocks_in_parts(X):
    parts = in_parts(X)
    return sparse.bsr_array((parts.data[:, None, None], parts.indices, parts.indptr), shape=X.shape)


SPARSE = {
    "in parts": in_parts,
    "in parts, by old flags in none": with_old_flags,
    "unsorted": unsorted,
    "zeros stored": with_zeros,
    "long indices": with_long_indices,
    "read-only": read_only,
    "coordinates in parts": lambda X: in_parts(X).tocoo(),
    "columns in parts": columns_in_parts,
    "blocks in parts": blocks_in_parts,
    "lists": sparse.lil_array,
    "keys": sparse.dok_matrix,
    "diagonals": lambda X: sparse.dia_array(sparse.csr_array(X)),
}
TENSORS = {
    "half": lambda X: torch.as_tensor(X).half(),
    "bfloat16": lambda X: torch.as_tensor(X).bfloat16(),
    "requiring gradients": lambda X: torch.as_tensor(X).float().requires_grad_(),
}


@pytest.mark.parametrize("form", SPARSE)
def test_every_form_of_a_sparse_table_becomes_one_and_stays_as_it_was(form):
    given = SPARSE[form](X)
    before = pickle.dumps(given)
    found = canonical(given)
    assert pickle.dumps(given) == before
    assert isinstance(
        found, sparse.csr_array if isinstance(given, sparse.sparray) else sparse.csr_matrix
    )
    expected = sparse.csr_array(X)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_a_matrix_whose_indices_lie_outside_of_it_is_refused():
    rows = sparse.csr_matrix(X)
    rows.indices[3] = 6
    with pytest.raises(ValueError, match="indices must be < 6"):
        KCenter(3).fit(rows)


# Every entrance ----------------------------------------------------------------------------------


def entrances(estimator):
    """The names of the public methods that are given rows, and that its options allow."""
    refused = {"check_model"} if getattr(estimator, "folds", None) is None else set()
    names = [
        name
        for name in sorted(set(dir(estimator)) - refused)
        if name[0] != "_" and inspect.ismethod(getattr(estimator, name, None))
    ]
    return [name for name in names if "X" in inspect.signature(getattr(estimator, name)).parameters]


def plain(said):
    """What was said, as arrays."""
    if sparse.issparse(said):
        return said.toarray()
    if hasattr(said, "estimator_"):
        known = vars(said.estimator_)
        return {
            name: value for name, value in known.items() if isinstance(value, np.ndarray)
        } | learned(said.selector_)
    if hasattr(said, "fit"):
        return learned(said)
    if is_dataclass(said):
        return {name: plain(value) for name, value in asdict(said).items()}
    if isinstance(said, list | tuple):
        return {str(i): plain(value) for i, value in enumerate(said)}
    return said.detach().float().numpy() if hasattr(said, "detach") else np.asarray(said)


def asked(estimator, name, rows, labels):
    """What a method of a fitted estimator, or of a fresh one, says of rows; or the words of its
    refusal."""
    state = pickle.loads(pickle.dumps(estimator))
    method = getattr(
        clone(estimator) if name in TAKES_ROWS and name != "partial_fit" else state, name
    )
    width = len(getattr(estimator, "indices_", ())) if name == "inverse_transform" else X.shape[1]
    known = {
        "X": rows[:, :width] if hasattr(rows, "shape") and rows.shape[1] > width else rows,
        "y": labels,
        "draws": np.zeros((100, X.shape[1] + 1)),
    }
    parameters = inspect.signature(method).parameters.values()
    needed = [
        p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    given = {key: known[key] for key in {*needed, "X", *({"y"} & {p.name for p in parameters})}}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return plain(method(**given))
    except (ValueError, TypeError) as error:
        return str(error)


def assert_alike(one, other, where, rough=0.0):
    assert isinstance(one, str) == isinstance(other, str), (where, one, other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_alike(one[key], other[key], f"{where}, {key}", rough)
    elif not isinstance(one, str) and one.dtype.kind == "f":
        np.testing.assert_allclose(one, other, rtol=rough, atol=rough / 10, err_msg=where)
    elif not isinstance(one, str):
        np.testing.assert_array_equal(one, other, err_msg=where)


def fitted(estimator, rows=X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(estimator).fit(rows, Y)


@each
def test_a_sparse_table_is_one_table_in_every_form_at_every_entrance(estimator):
    if isinstance(asked(estimator, "fit", sparse.csr_matrix(X), Y), str):
        assert all("parse" in asked(estimator, "fit", make(X), Y) for make in SPARSE.values())
        return
    found = fitted(estimator, sparse.csr_matrix(X))
    dense = fitted(estimator)
    rough = ROUGH.get(type(estimator).__name__, LOOSE.get(type(estimator).__name__, 1e-6))
    # What makes one form of all is tested above, so that an entrance has to show only that it asks
    # for it: by entries in parts, and by two other forms in turn.
    _, *others = SPARSE
    for turn, name in enumerate(entrances(found), ASKED.index(estimator)):
        expected = asked(found, name, sparse.csr_matrix(X), Y)
        assert not isinstance(expected, str), (name, expected)
        assert_alike(expected, asked(dense, name, X, Y), f"{name} of dense rows", rough)
        for form in ("in parts", others[turn % 11], others[(turn + 6) % 11]):
            given = SPARSE[form](X)
            before = pickle.dumps(given)
            assert_alike(asked(found, name, given, Y), expected, f"{name}, {form}")
            assert pickle.dumps(given) == before, f"{name} changed what was {form}"


@each
def test_tensors_of_every_precision_are_the_numbers_they_hold_at_every_entrance(estimator):
    single = torch.as_tensor(X).float()
    found = fitted(estimator, single)
    for name in entrances(found):
        expected = asked(found, name, single, Y)
        assert not isinstance(expected, str), (name, expected)
        for form, make in TENSORS.items():
            assert_alike(
                asked(found, name, make(X), torch.as_tensor(Y)), expected, f"{name}, {form}"
            )


@each
def test_a_memory_map_is_the_array_it_maps_at_every_entrance(estimator, tmp_path):
    np.save(tmp_path / "X.npy", X)
    found = fitted(estimator)
    for name in entrances(found):
        expected = asked(found, name, X, Y)
        mapped = asked(found, name, np.load(tmp_path / "X.npy", mmap_mode="r"), Y)
        assert_alike(mapped, expected, name, 1e-9 if name in TAKES_ROWS else 0.0)


@each
def test_what_is_said_of_rows_does_not_depend_on_their_order_or_company(estimator):
    found = fitted(estimator)
    order = np.random.default_rng(1).permutation(len(X))
    for name in {*entrances(found)} - {*TAKES_ROWS, "take", "check", "excess"}:
        said = asked(found, name, X, Y)
        other = asked(found, name, X[order], Y[order])
        by_row = said.ndim > 0 and said.shape[0] == len(X)
        # Log-likelihoods have a column for each row.
        said = said[:, order] if name == "log_likelihood" else said[order] if by_row else said
        assert_alike(other, said, name, 1e-9)


@each
def test_a_score_of_weighted_rows_is_that_of_the_rows_so_often(estimator):
    found = fitted(estimator)
    if "sample_weight" not in inspect.signature(getattr(found, "score", len)).parameters:
        return
    w = np.random.default_rng(2).integers(0, 4, len(X))
    again = np.repeat(np.arange(len(X)), w)
    np.testing.assert_allclose(
        found.score(X, Y, sample_weight=w), found.score(X[again], Y[again]), rtol=1e-12
    )


# probabilities, exact in any type
DYADIC = np.tile([0.5, 0.25, 0.125, 0.0625, 0.03125, 0.03125], (120, 1))
# What is recovered has other columns, and what compare says is asked below.
OF_ROWS = [name for name in IN_MEMORY if name != "compare" and not name.startswith("recover")]


@pytest.fixture
def seeded(monkeypatch):
    """What draws without a seed draws the same each time."""
    fresh = np.random.default_rng
    monkeypatch.setattr(np.random, "default_rng", lambda seed=0: fresh(seed))


def of_function(name, form):
    """What a function says of a table, or the words of its refusal."""
    of_shares = name.startswith("probabilities") or name == "MaxEntropyQuery"
    table = form(DYADIC if of_shares else X)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            said = IN_MEMORY[name](table, Y)
    except (ValueError, TypeError) as error:
        return str(error)
    arrays = {
        key: value
        for key, value in getattr(said, "__dict__", {}).items()
        if isinstance(value, np.ndarray)
    }
    return arrays or plain(said)


@pytest.mark.parametrize("name", OF_ROWS)
def test_functions_read_tensors_of_every_precision(name, seeded):
    expected = of_function(name, lambda X: torch.as_tensor(X).float())
    for form, make in TENSORS.items():
        assert_alike(of_function(name, make), expected, f"{name}, {form}", 1e-6)


@pytest.mark.parametrize("name", OF_ROWS)
def test_functions_read_sparse_rows_in_parts_as_whole_ones_or_refuse_them(name, seeded):
    assert_alike(of_function(name, in_parts), of_function(name, sparse.csr_matrix), name, 1e-6)


@pytest.mark.parametrize("recovery", [L1(), L2()], ids=repr)
def test_signals_are_recovered_from_tensors(recovery):
    A = np.eye(6)[:4]
    tensors = torch.as_tensor(A).bfloat16(), torch.as_tensor(X[:, :4]).half()
    np.testing.assert_allclose(
        recovery.recover(*tensors)[0], recovery.recover(A, X[:, :4])[0], rtol=1e-5
    )


# What feeds back, and what other objects keep ----------------------------------------------------


def batch(cls):
    sampler = {
        MixtureSampler: lambda: MixtureSampler(group_components(Y), batch_size=8, random_state=0),
        PrioritizedReplay: lambda: PrioritizedReplay(120, batch_size=8, random_state=0),
    }.get(cls, lambda: cls(120, batch_size=8, random_state=0))()
    if cls is PrioritizedReplay:
        sampler.add(120)
    return sampler, *sampler.sample()


SAMPLERS = sorted(
    (cls for cls in of_the_library(Sampler) if hasattr(cls, "update")), key=lambda cls: cls.__name__
)


@pytest.mark.parametrize("cls", SAMPLERS, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("given", ["bfloat16", "half", "a list of tensors", "ml_dtypes"])
def test_samplers_learn_from_losses_of_every_precision(cls, given):
    losses = np.tile([0.5, 2.0, 1.0, 4.0], 2)
    forms = {
        "bfloat16": lambda: torch.as_tensor(losses).bfloat16(),
        "half": lambda: torch.as_tensor(losses).half().requires_grad_(),
        "a list of tensors": lambda: list(torch.as_tensor(losses).bfloat16()),
        "ml_dtypes": lambda: losses.astype(pytest.importorskip("ml_dtypes").bfloat16),
    }
    one = batch(cls)[0]
    other = batch(cls)[0]
    one.update(forms[given]())
    other.update(torch.as_tensor(losses).float())
    for _ in range(3):
        for ours, theirs in zip(one.sample(), other.sample()):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rows_come_back_in_the_precision_in_which_they_came(dtype):
    rows = torch.as_tensor(X).to(dtype)
    weights = torch.ones(120, dtype=dtype)
    few = KCenter(5, random_state=0).fit(rows, torch.as_tensor(Y), sample_weight=weights)
    assert few.indices_.tolist() == KCenter(5, random_state=0).fit(X).indices_.tolist()
    assert few.take(rows)[0].dtype == dtype
    for view in (None, rows):
        memory = ReplayBuffer(KCenter(), size=10, random_state=0).add(
            rows, torch.as_tensor(Y), view=view
        )
        assert memory.rows()[0].dtype == dtype
    assert UniformCoreset(5).fit(Blocks(rows, rows=40)).n_features_in_ == 6


def test_what_bfloat16_makes_of_a_softmax_are_probabilities():
    logits = torch.as_tensor(np.random.default_rng(0).normal(size=(500, 30)))
    P = torch.softmax(logits, dim=1)
    chosen = MaxEntropyQuery().query(9, probabilities=P.bfloat16())
    rounded = P.bfloat16().double()
    assert (
        chosen.tolist()
        == MaxEntropyQuery().query(9, probabilities=rounded / rounded.sum(1, keepdim=True)).tolist()
    )
    MixtureSampler(torch.full((2, 300), 1 / 300).bfloat16())


def test_a_memory_chooses_from_a_sparse_view_in_parts_as_from_its_numbers():
    chosen = [
        ReplayBuffer(KCenter(), size=9, random_state=0).add(X, Y, view=view)
        for view in (in_parts(X), X)
    ]
    assert chosen[0].memories_[0].indices.tolist() == chosen[1].memories_[0].indices.tolist()


@pytest.mark.parametrize("form", SPARSE)
def test_compare_trains_on_every_form_of_a_sparse_table_alike(form):
    given = dict(sizes=[20], seeds=2, controls=False, verbose=False)
    tables = [
        compare(KCenter(), MultinomialNB(), rows, Y, test=(rows, Y), **given)
        for rows in (SPARSE[form](X), X)
    ]
    columns = ["method", "size", "seed", "score"]
    assert tables[0].frame[columns].equals(tables[1].frame[columns])


@pytest.mark.parametrize(
    "selector", [LightweightCoreset(9), KCenter(9), KMeansPlusPlus(9), SVMCoreset(9)], ids=repr
)
def test_blocks_of_rows_in_parts_are_those_of_whole_ones(selector):
    da = pytest.importorskip("dask.array")
    lengths = 60, 60
    chunks = [
        [da.from_array(form(X[part]), asarray=False) for part in (slice(0, 60), slice(60, 120))]
        for form in (in_parts, sparse.csr_matrix)
    ]
    labels = da.from_array(Y, chunks=(lengths,))
    fits = [
        clone(selector).set_params(random_state=0).fit(da.concatenate(two), labels)
        for two in chunks
    ]
    fits += [clone(selector).set_params(random_state=0).fit(Blocks(in_parts(X), Y, rows=60))]
    for found in fits[:-1]:
        assert_alike(learned(found), learned(fits[-1]), "in blocks", 1e-9)


def test_validation_rows_in_parts_are_whole_ones():
    few = BilevelCoreset(Logistic(), size=6, outer="validation", random_state=0)
    rows = sparse.csr_matrix(X)
    found = [
        clone(few).fit(rows, Y, validation=(make(X), Y))
        for make in (sparse.csr_matrix, *SPARSE.values())
    ]
    for one in found[1:]:
        assert_alike(learned(one), learned(found[0]), "validation")
