"""The replay memory, and the views of a network that selectors look at."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from frames import LIBRARIES, frame_of
from handful import (
    BilevelCoreset,
    KCenter,
    LightweightCoreset,
    Logistic,
    MergeReduce,
    StratifiedCoreset,
    SVMCoreset,
    UniformCoreset,
)
from handful.baselines import BalancedCoreset, Herding
from handful.continual import ReplayBuffer, network_views
from handful.continual.views import Views
from handful.streaming import Reservoir
from sklearn.base import clone


@pytest.mark.parametrize(
    "selector", [KCenter(), Herding(), BilevelCoreset(Logistic(1e-2))], ids=repr
)
def test_after_every_task_the_memory_holds_a_selection_of_each_in_equal_parts(selector, rng):
    tasks = [(rng.normal(size=(60, 3)) + t, rng.integers(2, size=60)) for t in range(4)]
    memory = ReplayBuffer(selector, size=22, random_state=0)
    alone = []
    for t, (X, y) in enumerate(tasks, start=1):
        memory.add(X, y)
        alone.append(memory.memories_[-1])
        assert [len(m) for m in memory.memories_] == [22 // t] * t
        for one, task, kept in zip(alone, tasks, memory.memories_):
            np.testing.assert_array_equal(kept.indices, one.indices[: 22 // t])
            np.testing.assert_array_equal(kept.X, task[0][kept.indices])
            np.testing.assert_array_equal(kept.y, task[1][kept.indices])
    assert len(memory) == 4 * 5


def test_shrinking_a_greedy_selection_is_selecting_anew_with_the_smaller_size(rng):
    X = rng.normal(size=(80, 3))
    memory = ReplayBuffer(Herding(), size=30).add(X).add(X)
    np.testing.assert_array_equal(memory.memories_[0].indices, Herding(15).fit(X).indices_)


@pytest.mark.parametrize(
    "selector",
    [
        LightweightCoreset(),
        SVMCoreset(),
        *(
            BilevelCoreset(strategy=strategy)
            for strategy in ("elimination", "regularised", "exchange")
        ),
        MergeReduce(KCenter(), leaf_size=1000),
    ],
    ids=repr,
)
def test_where_an_order_is_no_ranking_a_smaller_memory_keeps_random_rows(selector, rng):
    # sorted by class: so are indices in ascending order
    X = rng.normal(size=(300, 3))
    y = np.repeat([0, 1], 150)
    X[:, 0] += y
    memory, again = (ReplayBuffer(selector, size=40, random_state=0).add(X, y) for _ in range(2))
    first = memory.memories_[0]
    chosen = (
        clone(selector)
        .set_params(size=40, random_state=np.random.default_rng(0))
        .fit(X, y)
        .indices_
    )
    np.testing.assert_array_equal(np.sort(first.indices), np.sort(chosen))
    assert (first.indices != chosen).any()
    for _ in range(3):
        memory.add(X, y)
        again.add(X, y)
    np.testing.assert_array_equal(memory.memories_[0].indices, first.indices[:10])
    assert 0 < memory.memories_[0].y.sum() < 10
    for one, other in zip(memory.memories_, again.memories_):
        np.testing.assert_array_equal(one.indices, other.indices)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_the_weights_make_the_loss_a_sum_over_tasks_of_their_means(kind, rng):
    as_kind = torch.as_tensor if kind == "torch" else np.asarray
    memory = ReplayBuffer(UniformCoreset(), size=20, random_state=0)
    # the second task is smaller than its share, and kept whole
    for n in (50, 3, 50):
        memory.add(as_kind(rng.normal(size=(n, 2, 2))), as_kind(rng.integers(3, size=n)))
    X, y, weights = memory.rows()
    assert [len(m) for m in memory.memories_] == [6, 3, 6]
    assert X.shape == (15, 2, 2)
    losses = X[:, 0, 0] ** 2
    expected = sum((m.X[:, 0, 0] ** 2).mean() for m in memory.memories_)
    assert float((weights * losses).sum()) == pytest.approx(float(expected), rel=1e-6)
    assert (
        isinstance(X, torch.Tensor)
        is isinstance(y, torch.Tensor)
        is isinstance(weights, torch.Tensor)
    )
    assert isinstance(X, torch.Tensor) == (kind == "torch")


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_a_memory_takes_no_more_space_than_its_rows(kind, rng):
    memory = ReplayBuffer(UniformCoreset(), size=100, random_state=0)
    for _ in range(10):
        memory.add(kind(rng.normal(size=(120, 8))), kind(rng.integers(2, size=120)))
    # bytes of X, y and indices
    rows = len(memory) * (8 + 1 + 1) * 8
    # each task needs some names beside its rows
    assert len(pickle.dumps(memory.memories_)) < rows + 10 * 1000
    for array in (a for m in memory.memories_ for a in (m.X, m.y, m.indices)):
        held = (
            array.untyped_storage().nbytes()
            if isinstance(array, torch.Tensor)
            else (array.base is None) * array.nbytes
        )
        assert held == array.nbytes


def test_a_selector_looks_at_the_view_and_the_memory_keeps_the_rows(rng):
    X = rng.normal(size=(30, 5))
    view = rng.exponential(size=(30, 2))
    memory = ReplayBuffer(Herding(), size=4, random_state=0).add(X, view=view)
    np.testing.assert_array_equal(memory.rows()[0], X[Herding(4).fit(view).indices_])
    assert memory.rows()[1] is None


ROWS = np.random.default_rng(1).normal(size=(20, 2))
CODES = np.arange(20) % 2
TENSOR = torch.as_tensor(ROWS)


@pytest.mark.parametrize(
    ("held", "task", "message"),
    [
        ((ROWS, CODES), (TENSOR, torch.as_tensor(CODES)), "the task has X: Tensor of rows"),
        ((ROWS, torch.as_tensor(CODES)), (ROWS, CODES), "y: ndarray .* the memory has y: Tensor"),
        (
            (ROWS, CODES),
            (ROWS, CODES[:, None]),
            r"y must have shape \(20,\), one label a row, .* got \(20, 1\)",
        ),
        ((ROWS, CODES), (ROWS,), "the task has no labels, but the memory has y"),
        ((ROWS, CODES), (np.ones((9, 3)), CODES[:9]), r"of shape \(3,\) .* of shape \(2,\)"),
        (
            (ROWS, CODES),
            (ROWS, np.array(["a", "b"])[CODES]),
            "on cpu, words, but the memory has .*, numbers",
        ),
        (
            (ROWS.astype(np.float32), CODES),
            (ROWS, CODES),
            ", float64, but the memory has .*, float32",
        ),
        (
            (TENSOR.float(), CODES),
            (TENSOR, CODES),
            r", torch\.float64, but the memory has .*, torch\.float32",
        ),
        ((TENSOR, CODES), (TENSOR.to("meta"), CODES), "on meta, .* memory .* on cpu"),
        ((ROWS, CODES), (ROWS[:0], CODES[:0]), "no rows"),
        ((ROWS, CODES), (np.full((20, 2), np.nan), 0 * CODES), "NaN"),
        ((ROWS, CODES), (ROWS, 0 * CODES[1:]), r"y must have shape \(20,\)"),
    ],
)
def test_a_task_that_the_memory_could_not_put_together_leaves_it_as_it_was(held, task, message):
    memory = ReplayBuffer(BilevelCoreset(), size=6, random_state=0).add(*held)
    before = dict(vars(memory))
    state = memory.rng_.bit_generator.state
    rows = memory.rows()
    with pytest.raises(ValueError, match=message):
        memory.add(*task)
    assert vars(memory) == before
    assert memory.rng_.bit_generator.state == state
    for now, then in zip(memory.rows(), rows):
        np.testing.assert_array_equal(now, then)
    assert len(memory.add(*held).rows()[0]) == 6


def test_what_is_no_memory_no_selector_and_no_view_is_named(rng):
    X = ROWS
    y = np.arange(20) % 3
    with pytest.raises(ValueError, match="the memory is empty"):
        ReplayBuffer(UniformCoreset(), size=5).rows()
    for selector, message in (
        (KCenter, r"got the class KCenter: give KCenter\(\)"),
        (Reservoir(50), "by sample_weight, as BilevelCoreset does, but Reservoir takes none"),
    ):
        with pytest.raises(TypeError, match=message):
            ReplayBuffer(selector).add(X, y)
    of_network = network_views(torch.nn.Linear(2, 3), TENSOR.float(), y)
    with pytest.raises(
        TypeError, match=r"view must be an array, got Views: give its \.embeddings or \.gradients"
    ):
        ReplayBuffer(KCenter()).add(X, y, view=of_network)
    for view in (1.0, X[1:]):
        with pytest.raises(ValueError, match=r"a row for each of the 20 rows of X, got"):
            ReplayBuffer(KCenter()).add(X, y, view=view)
    assert len(ReplayBuffer(KCenter(), size=7).add(X, y, view=of_network.gradients)) == 7


def test_words_of_several_lengths_are_labels_alike(rng):
    X = rng.normal(size=(20, 2))
    memory = (
        ReplayBuffer(UniformCoreset(), size=6, random_state=0)
        .add(X, ["a"] * 20)
        .add(X, ["word"] * 20)
    )
    assert memory.rows()[1].tolist() == ["a"] * 3 + ["word"] * 3


def test_a_task_with_few_rows_of_positive_weight_keeps_those(rng):
    X = rng.normal(size=(300, 3))
    y = np.arange(300) % 2
    for selector in (UniformCoreset(), KCenter(), BilevelCoreset()):
        memory = ReplayBuffer(selector, size=10, random_state=0).add(
            X, y, sample_weight=np.arange(300) < 5
        )
        assert sorted(memory.memories_[0].indices) == [0, 1, 2, 3, 4]


def test_a_refused_size_is_said_to_be_the_share_of_a_task(rng):
    X = rng.normal(size=(60, 2))
    y = np.arange(60) % 10
    memory = ReplayBuffer(BilevelCoreset(), size=20, random_state=0)
    with pytest.warns(UserWarning, match="random start"):
        memory.add(X, y).add(X, y)
    with pytest.raises(
        ValueError, match=r"got size=6\. .* each of 3 tasks in a memory of 20 rows is 20 // 3 = 6"
    ):
        memory.add(X, y)
    assert [len(m) for m in memory.memories_] == [10, 10]


def test_a_task_of_one_class_is_remembered_at_random(rng):
    X = rng.normal(size=(40, 3))
    y = np.arange(40) % 2
    of_one = ReplayBuffer(BilevelCoreset(), size=12, random_state=0).add(X, 0 * y).add(X, y)
    absent = ReplayBuffer(BilevelCoreset(), size=6, random_state=0).add(X, y, sample_weight=3.0 * y)
    assert [len(m) for m in of_one.memories_] == [6, 6]
    assert absent.memories_[0].y.tolist() == [1] * 6
    for memory in (of_one, absent):
        assert len(np.unique(memory.memories_[0].indices)) == 6


def test_views_agree_with_autograd(rng):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(6, 3)
    )
    X = torch.randn(25, 4)
    y = torch.randint(3, (25,))
    view = network_views(model, X, y, batch_size=7)
    assert model.training
    model.eval()
    head = model[3]
    for i in range(25):
        loss = torch.nn.functional.cross_entropy(model(X[i : i + 1]), y[i : i + 1])
        W, b = torch.autograd.grad(loss, [head.weight, head.bias])
        by_hand = torch.cat([W, b[:, None]], dim=1).flatten().numpy()
        np.testing.assert_allclose(view.gradients[i], by_hand, atol=1e-6)
        assert view.losses[i, 0] == pytest.approx(loss.item(), rel=1e-5)
    np.testing.assert_allclose(view.embeddings, torch.relu(model[0](X)).detach().numpy(), atol=1e-6)


def test_views_leave_each_layer_in_its_mode():
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.Dropout(0.5), torch.nn.Linear(6, 3)
    )
    # frozen, as in fine-tuning
    model[1].eval()
    network_views(model, torch.randn(20, 4))
    assert [layer.training for layer in (model, *model)] == [True, True, False, True, True]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1, 2], r"y must hold 5 integers, one label a row, got shape \(3,\)"),
        ([[0], [1], [2], [0], [1]], r"got shape \(5, 1\)"),
        ([0.0, 1.0, 2.0, 0.0, 1.0], "dtype float64"),
        ([-1, 1, -1, 1, 1], "columns of the 3 logits, 0 to 2, got -1 to 1"),
        ([0, 1, 2, 3, 0], "columns of the 3 logits, 0 to 2, got 0 to 3"),
    ],
)
def test_views_refuse_labels_that_are_no_columns_of_the_logits(y, message):
    with pytest.raises(ValueError, match=message):
        network_views(torch.nn.Linear(2, 3), torch.zeros(5, 2), np.array(y))


def test_views_name_what_they_lack():
    with pytest.raises(ValueError, match="has no linear layer"):
        network_views(torch.nn.ReLU(), torch.zeros(3, 2))
    with pytest.raises(ValueError, match="did not use"):
        network_views(torch.nn.Linear(2, 2), torch.zeros(3, 2), head=torch.nn.Linear(2, 2))
    # the logits come from the first layer, the last one of the modules is an auxiliary head
    two_heads = torch.nn.Sequential(torch.nn.Linear(2, 3))
    two_heads[0].auxiliary = torch.nn.Linear(2, 5)
    two_heads[0].register_forward_hook(
        lambda layer, inputs, outputs: [layer.auxiliary(inputs[0]), outputs][1]
    )
    with pytest.raises(ValueError, match="3 outputs and the layer `head` 5"):
        network_views(two_heads, torch.zeros(3, 2))
    assert network_views(two_heads, torch.zeros(3, 2), head=two_heads[0]).logits.shape == (3, 3)
    of_one_logit = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Flatten(0))
    assert network_views(of_one_logit, torch.zeros(3, 2)).embeddings.shape == (3, 2)
    with pytest.raises(ValueError, match="need the labels"):
        Views(np.zeros((3, 2)), np.zeros((3, 2))).losses  # noqa: B018


@pytest.mark.parametrize(
    "other", [lambda frame: frame[["b", "a"]], lambda frame: frame.rename(columns={"b": "c"})]
)
def test_a_frame_of_other_columns_leaves_the_memory_as_it_was(other):
    frame = pd.DataFrame({"a": [1.0, 2, 3, 4], "b": [10.0, 20, 30, 40]})
    memory = ReplayBuffer(KCenter(), size=4, random_state=0).add(frame, [0, 1, 0, 1])
    before = memory.rows()[0]
    with pytest.raises(ValueError, match=r"but the memory has columns \['a', 'b'\]"):
        memory.add(other(frame), [0, 1, 0, 1])
    np.testing.assert_array_equal(memory.rows()[0], before)
    both = memory.add(frame, [0, 1, 0, 1]).rows()[0]
    np.testing.assert_array_equal(both[:, 1], 10 * both[:, 0])


def test_a_memory_of_frames_is_chosen_by_their_columns(rng):
    n = 1000
    zips = rng.integers(0, 5, n)
    frame = pd.DataFrame({"age": rng.normal(size=n), "zip": pd.Categorical(zips)})
    counts = []
    for seed in range(20):
        memory = ReplayBuffer(BalancedCoreset(by=["zip"]), 50, random_state=seed).add(frame, None)
        [held] = memory.memories_
        counts.append(np.bincount(zips[held.indices], minlength=5))
    # at the rounding of 50 rows
    assert np.abs(np.array(counts) - 50 * np.bincount(zips) / n).max() < 2
    by_name = ReplayBuffer(StratifiedCoreset(by="zip"), 50).add(frame, None)
    assert len(by_name.rows()[0]) == 50


def test_a_network_of_one_logit_may_give_a_vector():
    torch.manual_seed(0)
    head = torch.nn.Linear(2, 1)
    net = torch.nn.Sequential(head, torch.nn.Flatten(0))
    X = torch.randn(7, 2)
    assert network_views(net, X, head=head).logits.shape == (7, 1)
    with pytest.raises(ValueError, match="y must hold columns of the 1 logits"):
        network_views(net, X, np.arange(7) % 2, head=head)


@pytest.mark.parametrize("of_library", LIBRARIES)
def test_a_memory_takes_frames_of_any_library_again(of_library, rng):
    frame = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"])
    of = partial(frame_of, of_library)
    memory = ReplayBuffer(KCenter(), 10, random_state=0)
    for task in (frame, frame + 1):
        memory.add(of(task))
    assert len(memory.memories_) == 2
    with pytest.raises(ValueError, match=r"columns \['b', 'a'\]"):
        memory.add(of(frame[["b", "a"]]))


def test_images_of_a_list_are_the_memory_s_own():
    images = [np.ones((3 + i % 2, 4)) for i in range(30)]
    memory = ReplayBuffer(UniformCoreset(), size=10, random_state=0).add(images, np.arange(30))
    for image in images:
        image -= 7
    for _ in range(2):
        rows, _, _ = memory.rows()
        assert min(row.min() for row in rows) == 1
        for row in rows:
            row -= 1


def test_no_graph_is_remembered():
    X = torch.randn(20, 3, requires_grad=True)
    memory = ReplayBuffer(UniformCoreset(), size=5, random_state=0).add(2 * X, torch.arange(20))
    assert not memory.rows()[0].requires_grad


def test_views_are_of_rows_of_any_layout_and_precision():
    X = np.random.default_rng(0).normal(size=(20, 2))
    network = torch.nn.Linear(2, 3)
    expected = network_views(network, torch.as_tensor(X, dtype=torch.float32)).embeddings
    for rows in (X, torch.as_tensor(X), np.asfortranarray(X), X[::-1][::-1]):
        np.testing.assert_array_equal(network_views(network, rows).embeddings, expected)
    np.testing.assert_array_equal(network_views(network, X[::-1]).embeddings, expected[::-1])


@pytest.mark.parametrize("of_library", LIBRARIES)
def test_soft_labels_whose_columns_stand_in_another_order_leave_the_memory_as_it_was(of_library):
    of = partial(frame_of, of_library)
    soft = pd.DataFrame({"cat": np.full(20, 0.9), "dog": np.full(20, 0.1)})
    memory = ReplayBuffer(UniformCoreset(), size=6, random_state=0).add(ROWS, of(soft))
    for other in (of(soft[["dog", "cat"]]), soft.to_numpy()):
        with pytest.raises(ValueError, match=r"but the memory has y of columns \['cat', 'dog'\]"):
            memory.add(ROWS, other)
    memory.add(ROWS, of(soft))
    np.testing.assert_array_equal(memory.rows()[1], np.tile([0.9, 0.1], (6, 1)))


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, i):
        if i >= len(self):
            raise IndexError
        return torch.full((3,), float(i)), i % 2


@pytest.mark.parametrize(
    ("X", "got"),
    [
        (Squares(), r"Squares: X, y = next\(iter\(DataLoader\(dataset, batch_size=len\(dataset\)"),
        (torch.utils.data.TensorDataset(TENSOR, TENSOR[:, 0]), "TensorDataset: X, y = next"),
        (None, "NoneType"),
        (5, "int"),
        (np.array(5.0), r"ndarray of shape \(\)"),
        (torch.tensor(5.0), r"Tensor of shape \(\)"),
        ({"a": [1, 2]}, "dict"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_holds_no_rows_is_named_with_a_way_out(X, got):
    with pytest.raises(TypeError, match=f"X must hold rows, .* got {got}"):
        ReplayBuffer(UniformCoreset(), size=4).add(X)


def test_the_way_out_of_a_dataset_is_one():
    dataset = Squares()
    X, y = next(iter(torch.utils.data.DataLoader(dataset, batch_size=len(dataset))))
    rows, labels, _ = ReplayBuffer(UniformCoreset(), size=6).add(X, y).rows()
    assert sorted(rows[:, 0].tolist()) == [0, 1, 2, 3, 4, 5]
    np.testing.assert_array_equal(labels, rows[:, 0] % 2)
