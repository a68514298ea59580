"""The networks of Figure 8 and their coresets, against published sizes and plain loops."""

import numpy as np
import pytest
from scipy.io import savemat

torch = pytest.importorskip("torch")

from handful_papers.bico.fig08_networks import CURVES, METHODS, NetworkCoresets, tasks
from handful_papers.bico.image_networks import image_network, shift_and_flip
from handful_papers.readers import read_house_numbers
from handful_papers.tasks import run_task


@pytest.mark.parametrize(
    ("name", "count"),
    # as published, with ten classes; VGG16 without the biases that batch_size normalisation takes
    # away again
    [("wrn-16-4", 2_748_890), ("vgg16", 14_728_266 - 4_224), ("mobilenetv2", 2_236_682)],
)
def test_networks_have_the_published_number_of_parameters(name, count):
    net = image_network(name, 10, (3, 32, 32))
    assert sum(p.numel() for p in net.parameters()) == count


@pytest.mark.parametrize("flip", [False, True])
def test_augmentation_moves_and_mirrors_whole_images(flip):
    shape = (2, 4, 5)
    pad = 1
    X = torch.arange(1.0, 1 + 300 * 40).reshape(300, 40)
    moved = shift_and_flip(shape, pad=pad, flip=flip)(X, torch.Generator().manual_seed(0)).reshape(
        300, *shape
    )
    seen = set()
    for before, after in zip(X.reshape(300, *shape), moved):
        wide = torch.nn.functional.pad(before, (pad,) * 4)
        plain = {
            (down, right, mirrored): wide.flip(2) if mirrored else wide
            for down in range(3)
            for right in range(3)
            for mirrored in ([False, True] if flip else [False])
        }
        same = {
            key
            for key, w in plain.items()
            if torch.equal(w[:, key[0] : key[0] + 4, key[1] : key[1] + 5], after)
        }
        assert len(same) == 1
        seen |= same
    assert len(seen) == len(plain)


@pytest.fixture(scope="module")
def toy():
    return NetworkCoresets(
        "digits",
        n=80,
        side=4,
        networks={"WideResNet-16-4": "wrn-10-1", "VGG16": "vgg16-0.05"},
        train=dict(n_steps=4, batch_size=16, learning_rate=0.01, optimiser="adam"),
        n_start=20,
        batch_size=4,
        sizes=[30, 40],
        n_terms=2,
        device="cpu",
    )


def test_a_run_has_every_method_at_every_size(toy):
    task = toy
    rows = [row for method in ("full", *METHODS) for row in task.run(method, 0)]
    curve = [(r["method"], r["size"]) for r in rows if r["network"] == "WideResNet-16-4"]
    every = [("full", 80), *((m, s) for m in CURVES for s in (30, 40)), ("bico joint", 40)]
    assert sorted(curve) == sorted(every)
    assert sorted(r["method"] for r in rows if r["network"] == "VGG16") == sorted(
        ["full", *METHODS]
    )
    assert all(0 <= r[k] <= 100 for r in rows for k in ("accuracy", "train_accuracy"))
    embeddings, events, _ = task.look_on(0)
    assert embeddings.shape == (80, 64)
    for method in METHODS:
        chosen = task.select(method, 0, embeddings, events)
        assert len(np.unique(chosen)) == 40, method
    assert set(task.select("forgetting", 0, embeddings, np.arange(80.0))) == set(range(40, 80))


def test_every_method_is_a_task_and_a_joint_one_needs_its_partner():
    sets = {"CIFAR-10": {"n": 1}, "SVHN": {"n": 2}}
    alone = tasks(sets, ["WideResNet-16-4"])
    assert {task["about"]["set"] for task in alone} == set(sets)
    assert "bico joint" not in {task["method"] for task in alone}
    both = tasks(sets, ["WideResNet-16-4", "VGG16"])
    for name in sets:
        ran = [task["method"] for task in both if task["about"]["set"] == name]
        assert sorted(ran) == sorted(["full", *METHODS])


@pytest.mark.parametrize(
    ("told", "steps"), [(4, (4, 4)), ({"WideResNet-16-4": 4, "VGG16": 9}, (4, 9))]
)
def test_a_network_is_trained_in_its_own_steps(told, steps):
    networks = {"WideResNet-16-4": "wrn-10-1", "VGG16": "vgg16-0.05"}
    about = dict(n=80, side=4, n_start=20, batch_size=4, sizes=[30], n_terms=2)
    train = dict(n_steps=told, batch_size=16)
    task = NetworkCoresets("digits", networks=networks, train=train, **about)
    assert tuple(task.problem(network, 0).train.n_steps for network in networks) == steps


@pytest.mark.parametrize("method", ["bico", "bico joint"])
def test_a_killed_selection_goes_on_where_it_was_and_chooses_the_same_rows(
    toy, method, tmp_path, monkeypatch
):
    def task(method):
        return [{"row": int(row)} for row in toy.select(method, 0, None, None)]

    whole = [int(row) for row in toy.select(method, 0, None, None)]
    fit = toy.problem("VGG16", 0).fit_module
    trained = []

    def killed(problem, X, y, *options):
        trained.append(len(X))
        if len(X) == 36 and trained.count(36) == 1:
            raise KeyboardInterrupt
        return type(problem).fit_whole(problem, X, y, *options)

    monkeypatch.setattr(
        type(fit.__self__), "fit_whole", type(fit.__self__).fit_module, raising=False
    )
    monkeypatch.setattr(type(fit.__self__), "fit_module", killed)
    with pytest.raises(KeyboardInterrupt):
        run_task(task, {"method": method}, [], str(tmp_path))
    assert trained == [20, 24, 28, 32, 36]
    rows = run_task(task, {"method": method}, [], str(tmp_path))[0]
    assert trained[5:] == [36]
    assert [row["row"] for row in rows] == whole


def test_house_numbers_are_rows_like_those_of_cifar_and_a_ten_is_the_digit_zero(tmp_path, rng):
    pixels = rng.integers(256, size=(32, 32, 3, 4), dtype=np.uint8)
    savemat(tmp_path / "a.mat", {"X": pixels, "y": np.array([[1], [10], [3], [9]], np.uint8)})
    X, y = read_house_numbers(tmp_path / "a.mat", None)
    assert X.dtype == np.uint8
    assert y.tolist() == [1, 0, 3, 9]
    # Red, then green, then blue, each of them line by line.
    assert X[2].reshape(3, 32, 32)[1, 5, 7] == pixels[5, 7, 1, 2]
