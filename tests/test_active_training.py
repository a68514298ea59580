"""MixMatch, supervised training, the networks, the loop, and the protocol of Figure 10 on tiny data."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is an optional extra")

from handful.active import ActiveLoop, MixMatch, SupervisedNetwork  # noqa: E402
from handful.active.mixmatch import mix_up, mixing_shares, sharpen  # noqa: E402
from handful.active.networks import network  # noqa: E402
from handful_papers.bico import active, active_data  # noqa: E402
from handful_papers.bico import label_your_own as labelling  # noqa: E402
from sklearn.base import clone  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


def moons(n, rng):
    """Two half circles, with one labelled point at the end of each."""
    t = rng.uniform(0, np.pi, n)
    y = np.arange(n) % 2
    X = np.where(y[:, None], np.c_[1 - np.cos(t), 0.4 - np.sin(t)], np.c_[np.cos(t), np.sin(t)])
    return (X + 0.06 * rng.normal(size=X.shape)).astype(np.float32), y


# --- the pieces of MixMatch


def test_sharpening_is_the_power_and_keeps_order(generator):
    P = torch.rand(20, 5, generator=generator) + 0.1
    P /= P.sum(dim=1, keepdim=True)
    for i, row in enumerate(sharpen(P, 0.5)):
        squares = [float(p) ** 2 for p in P[i]]
        np.testing.assert_allclose(row.numpy(), np.array(squares) / sum(squares), rtol=1e-5)
    np.testing.assert_allclose(sharpen(P, 1.0).numpy(), P.numpy(), rtol=1e-6)


def test_mixing_shares_are_those_of_the_beta_distribution_from_one_half_up(generator):
    shares = mixing_shares(20000, 0.75, generator).numpy()
    assert 0.5 <= shares.min() <= shares.max() <= 1.0
    s = np.random.default_rng(1).beta(0.75, 0.75, size=200000)
    expected = np.maximum(s, 1 - s)
    assert abs(shares.mean() - expected.mean()) < 4 * expected.std() / np.sqrt(20000)


def test_mixed_rows_lie_between_two_rows_nearer_to_their_own(generator):
    x, y = torch.arange(8.0)[:, None], torch.eye(8)
    shares = torch.full((8,), 0.75)
    mixed, labels = mix_up(x, y, shares, generator)
    np.testing.assert_allclose(labels.sum(dim=1).numpy(), 1.0)
    np.testing.assert_allclose((labels @ x).numpy(), mixed.numpy(), rtol=1e-6)  # inputs and labels mix alike
    assert (labels.diagonal() >= 0.75).all()


def test_mixmatch_learns_from_what_is_not_labelled():
    rng = np.random.default_rng(0)
    X, y = moons(400, rng)
    few = np.full(400, -1)
    for c in (0, 1):
        few[np.flatnonzero(y == c)[:3]] = c
    copies = X[:, None] + 0.1 * rng.normal(size=(400, 8, 2)).astype(np.float32)
    options = dict(n_steps=300, batch_size=32, learning_rate=3e-3, random_state=0)
    with_pool = MixMatch("mlp", **options).fit(X, few, copies=copies).score(X, y)
    alone = SupervisedNetwork("mlp", **options).fit(X, few, copies=copies).score(X, y)
    assert with_pool > alone
    assert with_pool > 0.9


def test_training_sees_what_it_should():
    rng = np.random.default_rng(0)
    X, y = moons(60, rng)
    few = np.where(np.arange(60) < 6, y, -1)
    options = dict(n_steps=20, batch_size=8, random_state=0)
    a = SupervisedNetwork("mlp", **options).fit(X, few)
    other = X.copy()
    other[6:] = rng.normal(size=other[6:].shape)
    b = SupervisedNetwork("mlp", **options).fit(other, few)
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))  # unlabelled rows mean nothing to it
    a, b = (MixMatch("mlp", **options).fit(Z, few) for Z in (X, other))
    assert np.abs(a.predict_proba(X) - b.predict_proba(X)).max() > 1e-4
    again = clone(a).fit(X, few)
    np.testing.assert_array_equal(a.predict_proba(X), again.predict_proba(X))


@pytest.mark.parametrize("cls", [SupervisedNetwork, MixMatch])
def test_an_interrupted_training_is_raised_and_leaves_the_network_so_far(cls, monkeypatch):
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.where(np.arange(40) < 20, np.arange(40) % 2, -1)
    loss_of, found = cls._loss, []
    for last in (0, 4):

        def interrupted(self, net, x, targets, step, rng, last=last):
            if step == last:
                raise KeyboardInterrupt
            return loss_of(self, net, x, targets, step, rng)

        monkeypatch.setattr(cls, "_loss", interrupted)
        model = cls("mlp", n_steps=8, random_state=0)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
        found.append(model.predict_proba(X))
    assert np.abs(found[0] - found[1]).max() > 1e-3


def test_alignment_makes_guesses_equally_frequent():
    X, y = moons(200, np.random.default_rng(0))
    few = np.full(200, -1)
    few[:20] = y[:20]
    few[[i for i in range(20) if y[i] == 1][1:]] = -1  # ten labels of class 0, one of class 1
    shares = [
        np.mean(MixMatch("mlp", n_steps=150, batch_size=32, align=a, random_state=0).fit(X, few).predict(X))
        for a in (False, True)
    ]
    assert abs(shares[1] - 0.5) < abs(shares[0] - 0.5)


def test_training_leaves_the_global_generator_alone():
    X, y = moons(30, np.random.default_rng(0))
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    SupervisedNetwork("mlp", n_steps=2, random_state=0).fit(X, y)
    assert torch.equal(torch.rand(3), expected)


def test_labels_of_any_numbers_and_order_come_back():
    X, y = moons(100, np.random.default_rng(0))
    model = SupervisedNetwork("mlp", n_steps=150, batch_size=32, learning_rate=1e-2, random_state=0)
    assert model.fit(X, np.array([7, 3])[y], classes=[7, 3, 5]).predict_proba(X).shape == (100, 3)
    assert np.mean(model.predict(X) == np.array([7, 3])[y]) > 0.9
    assert np.mean(np.array([7, 3, 5])[model.predict_proba(X).argmax(axis=1)] == np.array([7, 3])[y]) > 0.9


@pytest.mark.parametrize(("name", "shape"), [("conv", (32, 32)), ("conv-4-8", (3, 20, 16)), ("mlp", (7,))])
def test_networks_give_logits_of_their_embeddings(name, shape):
    net = network(name, 4, shape).eval()
    x = torch.randn(2, *(shape if len(shape) != 2 else (1, *shape)))
    assert net(x).shape == (2, 4)
    torch.testing.assert_close(net.head(net.embed(x)), net(x))


def test_the_papers_network_has_its_size():
    with torch.device("meta"):
        net = network("wrn-28-10", 10, (32, 32))
        assert net(torch.empty(2, 1, 32, 32)).shape == (2, 10)
    assert sum(p.numel() for p in net.parameters()) == pytest.approx(36.5e6, rel=0.01)  # Table 4 of its paper


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        (dict(network="resnet"), {}, "network must be"),
        (dict(network="wrn-27-1"), {}, "depth must be"),
        (dict(network="mlp"), {}, "rows of shape .d,."),
        (dict(n_steps=0), {}, "n_steps must be an integer of at least 1"),
        (dict(learning_rate=-1.0), {}, "learning_rate must be a finite number"),
        (dict(temperature=0.0), {}, "temperature must be a finite number of at least 0.05"),
        ({}, dict(y=np.full(8, -1)), "none of 8 rows is labelled"),
        ({}, dict(y=np.arange(8) % 2), "needs unlabelled rows"),
        ({}, dict(y=np.array([0, 1, 5, -1, -1, -1, -1, -1]), classes=[0, 1]), r"y holds \[5\]"),
        ({}, dict(y=np.array([0, 0, -1, -1, -1, -1, -1, -1])), "at least 2 classes"),
        ({}, dict(copies=np.zeros((8, 2, 9, 9))), "copies must have shape"),
        ({}, dict(X=np.full((8, 8, 8), np.nan)), "X must be finite"),
        ({}, dict(X=np.zeros((0, 8, 8))), "at least one row"),
    ],
)
def test_bad_options_and_data_are_named(changes, arguments, message):
    given = dict(X=np.zeros((8, 8, 8)), y=np.array([0, 1, -1, -1, -1, -1, -1, -1])) | arguments
    X, y = given.pop("X"), given.pop("y")
    with pytest.raises(ValueError, match=message):
        MixMatch(**{"network": "conv-4", "n_steps": 2, **changes}).fit(X, y, **given)


# --- the loop


def in_order(labelled, labels, pool, n):
    return pool[:n]


def test_every_answer_is_on_disk_before_the_next_and_a_new_loop_goes_on_there(tmp_path):
    path = tmp_path / "answers" / "mine.json"
    loop = ActiveLoop(in_order, n_pool=20, classes=["a", "b"], batch_size=4, path=path)
    assert loop.next() == [0, 1, 2, 3]
    for i in (0, 1):
        loop.label(i, "a")
        assert json.loads(path.read_text())["answers"][-1] == [i, "a"]
    resumed = ActiveLoop(lambda *_: pytest.fail("asked again"), n_pool=20, classes=["a", "b"], batch_size=4, path=path)
    assert resumed.next() == [2, 3]  # the batch that was begun
    resumed.label(2, None)
    resumed.label(3, "b")
    resumed.label(0, "b")  # a correction
    resumed = ActiveLoop(in_order, n_pool=20, classes=["a", "b"], batch_size=4, path=path)
    assert resumed.labelled.tolist() == [0, 1, 3]
    assert resumed.labels.tolist() == ["b", "a", "b"]
    assert resumed.skipped.tolist() == [2]
    assert resumed.rounds == [[0, 1, 2, 3]]


def test_the_loop_ends_with_the_pool():
    loop = ActiveLoop(in_order, n_pool=7, classes=[0, 1], batch_size=3)
    loop.run(lambda i: i % 2, n_rounds=9)
    assert [len(r) for r in loop.rounds] == [3, 3, 1]
    assert loop.next() == []


@pytest.mark.parametrize("bad", [lambda *_: [0, 0, 1], lambda *_: [0, 1], lambda *_: [0, 1, 20], lambda *_: [0, 1, 2]])
def test_proposals_that_cannot_be_labelled_are_refused(bad):
    loop = ActiveLoop(bad, n_pool=20, classes=[0, 1], batch_size=3)
    loop.label(2, 1)
    with pytest.raises(ValueError, match="propose must give 3 different points"):
        loop.next()


def test_answers_of_another_pool_and_broken_files_are_refused(tmp_path):
    path = tmp_path / "a.json"
    ActiveLoop(in_order, n_pool=20, classes=[0, 1], path=path).next()
    with pytest.raises(ValueError, match="belongs to another pool: its n_pool is 20"):
        ActiveLoop(in_order, n_pool=21, classes=[0, 1], path=path)
    with pytest.raises(ValueError, match="its classes is"):
        ActiveLoop(in_order, n_pool=20, classes=[0, 2], path=path)
    path.write_text("{")
    with pytest.raises(ValueError, match="holds no answers"):
        ActiveLoop(in_order, n_pool=20, classes=[0, 1], path=path)


def test_labels_and_points_that_are_none_are_refused():
    loop = ActiveLoop(in_order, n_pool=20, classes=["a", "b"])
    with pytest.raises(ValueError, match="label must be one of"):
        loop.label(0, "c")
    with pytest.raises(ValueError, match=r"point must be in 0\.\.19"):
        loop.label(20, "a")
    for changes in (dict(n_pool=0), dict(batch_size=21), dict(classes=["a"]), dict(classes=["a", "a"])):
        with pytest.raises(ValueError):  # noqa: PT011 (each message is its own)
            ActiveLoop(in_order, **{"n_pool": 20, "classes": ["a", "b"], **changes})


# --- the protocol


@pytest.fixture(scope="module")
def tones():
    return active_data.prepare("spoken_tones", n_copies=5, cache=False, n=84)


TINY = dict(network="conv-4-8", n_steps=5, batch_size=8)


@pytest.mark.parametrize("method", active.METHODS_SHOWN)
def test_every_method_runs_the_whole_protocol(method, tones):
    proxy = active_data.Proxy(tones, kernel="rbf", n_landmarks=30, n_variants=2, cache=False)
    rows = active.run_active(tones, method, 0, sizes=[12, 16, 20], options=TINY, proxy=proxy)
    assert [r["labels"] for r in rows] == [12, 16, 20]
    chosen = rows[0]["chosen"] + rows[1]["chosen"]
    assert len(set(chosen)) == 8
    assert not set(chosen) & set(active.first_labels(tones.y, 12, seed=0).tolist())
    assert all(0 <= r["mistakes"] <= 4 and 1 <= r["classes"] <= 4 for r in rows[:-1])
    json.dumps(rows)


def test_augmentations_are_different_ones_drawn_anew_for_each_seed_and_number_of_labels(tones):
    rows, k = np.arange(3, 30), tones.copies.shape[1]
    first = active.augmented(tones, rows, 2, seed=0, n_labelled=10)
    assert all(
        len({a.tobytes(), b.tobytes()} & {c.tobytes() for c in tones.copies[r]}) == 2 for r, a, b in zip(rows, *first)
    )
    for other in (dict(seed=1, n_labelled=10), dict(seed=0, n_labelled=20)):
        assert not np.array_equal(first, active.augmented(tones, rows, 2, **other))
    np.testing.assert_array_equal(first, active.augmented(tones, rows, 2, seed=0, n_labelled=10))
    with pytest.raises(ValueError, match="larger sample"):
        active.augmented(tones, rows, k + 1, seed=0, n_labelled=10)


def test_table_7_and_figure_10_train_on_the_same_uniform_labels(tones):
    a = active.run_active(tones, "uniform", 1, sizes=[10, 20], options=TINY)
    b = active.run_uniform(tones, "mixmatch", 1, sizes=[10, 20], options=TINY)
    assert [r["accuracy"] for r in a] == [r["accuracy"] for r in b]


def test_first_labels_hold_every_class():
    y = np.repeat(np.arange(10), [91, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    for seed in range(20):
        first = active.first_labels(y, 12, seed=seed)
        assert len(set(first.tolist())) == 12
        assert set(y[first]) == set(range(10))
    with pytest.raises(ValueError, match="at least the number of classes"):
        active.first_labels(y, 9, seed=0)


def test_a_batch_is_described_by_counting(tones):
    model = active.train(tones, np.arange(20), tones.y[:20], seed=0, **TINY)
    wrong = model.predict(tones.X) != tones.y
    pool = np.arange(20, len(tones.y))
    bad = pool[wrong[20:]][:5]
    found = active.describe(bad, model, tones, np.arange(20))
    assert found["mistakes"] == 5
    assert found["pool_mistakes"] == pytest.approx(5 * wrong[20:].mean())
    assert found["classes"] == len(set(tones.y[bad]))
    near = np.argsort(np.linalg.norm(model.embed(tones.X[pool]) - model.embed(tones.X[pool[:1]]), axis=1))[:5]
    assert active.describe(pool[near], model, tones, np.arange(20))["spread"] < 1


def test_tasks_of_a_sweep_give_the_rows_of_the_protocol():
    pool, sizes = dict(dataset="spoken_tones", n_copies=5, generated={"n": 84}), [10, 12]
    proxy = dict(kernel="rbf", n_landmarks=30, n_variants=2)
    data, known = active_data.recordings(**pool), active_data.features(pool, proxy)
    assert active_data.recordings(**pool) is data
    plain = active.run_active(data, "bico", 1, sizes=sizes, options=TINY, proxy=known)
    task = active.query_rows("bico", pool=pool, sizes=sizes, options=TINY, proxy=proxy, seed=1)
    assert [r["accuracy"] for r in task] == [r["accuracy"] for r in plain]
    assert task[0]["chosen"].split() == [str(i) for i in plain[0]["chosen"]]
    batches = active.batch_rows(pool=pool, n_first=10, options=TINY, proxy=proxy, seed=1)
    assert [r["method"] for r in batches] == list(active.METHODS_SHOWN)
    assert {r["accuracy"] for r in batches} == {plain[0]["accuracy"]}


def test_a_simulated_person_labels_what_is_asked_for_and_as_many_random_recordings():
    shared = dict(pool=dict(dataset="spoken_tones", n_copies=5, generated={"n": 84}), options=TINY, seed=0)
    shared |= dict(kernel=dict(kernel="rbf", n_landmarks=30, n_variants=1), batch=6, n_rounds=2)
    asked, drawn = (labelling.simulated_rows(method, **shared) for method in ("bico", "uniform"))
    for rows in (asked, drawn):
        assert [r["labels"] for r in rows] == [6, 12]
        assert all(1 <= r["words_heard"] <= 10 for r in rows)
    assert asked != drawn


def test_a_model_that_asks_is_not_trained_again_to_be_measured(tones):
    ask = labelling.Asker(tones, tones.X.reshape(len(tones.X), -1), options=TINY)
    labelled = np.arange(20)
    labels = np.array([tones.words[c] for c in tones.y[:20]])
    rest = np.arange(20, len(tones.X))
    chosen = ask(labelled, labels, rest, 3)
    assert set(chosen) <= set(rest)
    model = ask.train(labelled, labels)
    assert ask.train(labelled, labels) is model
    assert ask.train(labelled[:19], labels[:19]) is not model


def test_what_other_code_left_on_disk_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(active_data, "data_folder", lambda: tmp_path)
    options = dict(n_copies=1, n=21)
    first = active_data.prepare("spoken_tones", **options)
    monkeypatch.setattr(active_data, "_spectrograms", lambda *args: pytest.fail("made again"))
    np.testing.assert_array_equal(active_data.prepare("spoken_tones", **options).copies, first.copies)
    monkeypatch.setattr(active_data, "code_fingerprint", lambda function: "other code" * 5)
    with pytest.raises(pytest.fail.Exception, match="made again"):
        active_data.prepare("spoken_tones", **options)


def test_proxy_features_of_variants_are_those_of_the_kernel(tones):
    proxy = active_data.Proxy(tones, kernel="rbf", n_landmarks=60, n_variants=3, cache=False)
    Z, V = proxy.Z.astype(float), proxy.variants(4).astype(float)
    assert V.shape == (3, Z.shape[1])
    rows, own = tones.X.reshape(len(tones.X), -1), tones.copies[4, :3].reshape(3, -1).astype(float)
    K = np.exp(-0.3 / 1024 * ((own[:, None] - rows[None].astype(float)) ** 2).sum(axis=2))
    np.testing.assert_allclose(V @ Z.T, K, atol=2e-2)
    with pytest.raises(ValueError, match="at most the 5 presampled"):
        active_data.Proxy(tones, n_variants=6, cache=False)
