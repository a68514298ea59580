"""The replay memory, and the views of a network that selectors look at."""

import numpy as np
import pytest
import torch
from handful import BilevelCoreset, KCenter, Logistic, UniformCoreset
from handful.baselines_trained import Hardest, Herding
from handful.continual import ReplayBuffer
from handful.continual.views import Views, views


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("selector", [KCenter(), Herding(), BilevelCoreset(Logistic(1e-2))], ids=repr)
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


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_the_weights_make_the_loss_a_sum_over_tasks_of_their_means(kind, rng):
    as_kind = torch.as_tensor if kind == "torch" else np.asarray
    memory = ReplayBuffer(UniformCoreset(), size=20, random_state=0)
    for n in (50, 3, 50):  # the second task is smaller than its share, and kept whole
        memory.add(as_kind(rng.normal(size=(n, 2, 2))), as_kind(rng.integers(3, size=n)))
    X, y, weights = memory.rows()
    assert [len(m) for m in memory.memories_] == [6, 3, 6]
    assert X.shape == (15, 2, 2)
    losses = X[:, 0, 0] ** 2
    expected = sum((m.X[:, 0, 0] ** 2).mean() for m in memory.memories_)
    assert float((weights * losses).sum()) == pytest.approx(float(expected), rel=1e-6)
    assert isinstance(X, torch.Tensor) is isinstance(y, torch.Tensor) is isinstance(weights, torch.Tensor)
    assert isinstance(X, torch.Tensor) == (kind == "torch")


def test_a_selector_looks_at_the_view_and_the_memory_keeps_the_rows(rng):
    X, losses = rng.normal(size=(30, 5)), rng.exponential(size=(30, 1))
    memory = ReplayBuffer(Hardest(), size=4, random_state=0).add(X, view=losses)
    np.testing.assert_array_equal(memory.rows()[0], X[np.argsort(-losses[:, 0])[:4]])
    assert memory.rows()[1] is None


def test_what_a_memory_refuses(rng):
    X = rng.normal(size=(20, 2))
    memory = ReplayBuffer(UniformCoreset(), size=2, random_state=0).add(X).add(X)
    with pytest.raises(ValueError, match="size=2 holds no row of each of 3 tasks"):
        memory.add(X)
    assert [len(m) for m in memory.memories_] == [1, 1]  # as before
    with pytest.raises(ValueError, match="view must have a row for each of the 20 rows of X, got 19"):
        ReplayBuffer(UniformCoreset(), size=5).add(X, view=X[1:])
    with pytest.raises(ValueError, match="the memory is empty"):
        ReplayBuffer(UniformCoreset(), size=5).rows()
    with pytest.raises(ValueError, match="no rows"):
        ReplayBuffer(UniformCoreset(), size=5).add(X[:0])
    with pytest.raises(ValueError, match="size must be an integer of at least 1, got size=0"):
        ReplayBuffer(UniformCoreset(), size=0).add(X)
    y = np.arange(20) % 2
    held = ReplayBuffer(UniformCoreset(), size=5, random_state=0).add(X, y)
    for task, message in (
        ((np.ones((9, 3)), y[:9]), r"must have shape \(2,\) as those of the memory, got \(3,\)"),
        ((X,), "the memory holds rows with labels"),
        ((torch.tensor(X), torch.tensor(y)), "torch tensor for every task"),
        ((X, np.array(["a", "b"])[y]), "words for every task, or numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            held.add(*task)
        assert len(held.rows()[0]) == 5


def test_a_task_of_one_class_is_remembered_at_random(rng):
    X = rng.normal(size=(40, 3))
    memory = ReplayBuffer(BilevelCoreset(), size=12, random_state=0).add(X, np.zeros(40)).add(X, np.arange(40) % 2)
    assert [len(m) for m in memory.memories_] == [6, 6]
    assert len(np.unique(memory.memories_[0].indices)) == 6


def test_views_agree_with_autograd(rng):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(6, 3))
    X, y = torch.randn(25, 4), torch.randint(3, (25,))
    view = views(model, X, y, batch_size=7)
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


def test_views_name_what_they_lack():
    with pytest.raises(ValueError, match="has no linear layer"):
        views(torch.nn.ReLU(), torch.zeros(3, 2))
    with pytest.raises(ValueError, match="did not use"):
        views(torch.nn.Linear(2, 2), torch.zeros(3, 2), head=torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="need the labels"):
        Views(np.zeros((3, 2)), np.zeros((3, 2))).losses  # noqa: B018
