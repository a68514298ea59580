"""Networks as inner problems, against dense derivatives and plain loops."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from handful import BilevelCoreset, Logistic  # noqa: E402 (needs torch)
from handful.bilevel import (  # noqa: E402
    ConjugateGradients,
    ConvergenceError,
    Forward,
    Joint,
    Network,
    NeumannSeries,
    TrainConfig,
)
from handful.bilevel.selections.network import NetworkModel  # noqa: E402
from handful.models import Rows  # noqa: E402

QUICK = TrainConfig(n_steps=60, learning_rate=2e-2, optimiser="adam", weight_decay=2e-2)


def small_net(seed=0, d=4, classes=3):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(d, 5), torch.nn.Tanh(), torch.nn.Linear(5, classes)).double()


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    return rng.normal(size=(60, 4)) + np.eye(4)[y] * 2, y


def selection(data, problem, ihvp=None, rows=range(12)):
    X, y = data
    model = problem.model(Rows(X, problem.encode(y), np.ones(len(X)), np.empty(0, int)), None, ihvp=ihvp)
    model.add(list(rows))
    model.fit()
    return model


def dense(model, curvature):
    """Gradients of all rows, (n, p), and the inner Hessian, (p, p), by reverse mode, a row at a time."""
    names, sizes = model._names, [s.numel() for s in model._shapes]
    theta = torch.cat([model._theta[k].ravel() for k in names])

    def outputs(flat, X):
        parts = {k: p.reshape(s) for k, p, s in zip(names, flat.split(sizes), model._shapes)}
        return torch.func.functional_call(model.module, parts, (X,))

    def mean_loss(flat, X, y):
        return torch.nn.functional.cross_entropy(outputs(flat, X), y)

    X, y = model._X, model._y
    rows = torch.stack(
        [
            torch.autograd.functional.jacobian(lambda t, i=i: mean_loss(t, X[i : i + 1], y[i : i + 1]), theta)
            for i in range(len(X))
        ]
    )
    chosen = torch.tensor(model.indices)
    if curvature == "hessian":
        H = torch.autograd.functional.hessian(lambda t: mean_loss(t, X[chosen], y[chosen]), theta)
    else:
        J = torch.autograd.functional.jacobian(lambda t: outputs(t, X[chosen]), theta)
        p = outputs(theta, X[chosen]).softmax(dim=1)
        inner = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
        H = torch.einsum("iap,iab,ibq->pq", J, inner, J) / len(chosen)
    return rows.numpy(), H.numpy() + model.problem.training().weight_decay * np.eye(len(theta))


@pytest.mark.parametrize("curvature", ["gauss-newton", "hessian"])
def test_products_are_those_of_the_dense_hessian(data, curvature):
    model = selection(data, Network(small_net(), train=QUICK, curvature=curvature))
    _, H = dense(model, curvature)
    v = np.random.default_rng(1).normal(size=len(H))
    np.testing.assert_allclose(model.product(np.random.default_rng(0))(v), H @ v, rtol=1e-8, atol=1e-10)


def test_minibatch_products_are_unbiased(data):
    model = selection(data, Network(small_net(), train=QUICK, curvature_batch_size=6))
    _, H = dense(model, "gauss-newton")
    v = np.random.default_rng(1).normal(size=len(H))
    times = model.product(np.random.default_rng(0))
    draws = np.array([times(v) for _ in range(400)])
    assert draws.std(axis=0).max() > 1e-3
    error = np.abs(draws.mean(axis=0) - H @ v)
    assert (error <= 5 * draws.std(axis=0) / 20 + 1e-12).all()


@pytest.mark.parametrize("ihvp", [ConjugateGradients(200), NeumannSeries(500)])
def test_scores_are_the_implicit_gradients(data, ihvp):
    model = selection(data, Network(small_net(), train=QUICK, batch_size=7), ihvp)
    rows, H = dense(model, "gauss-newton")
    exact = rows @ np.linalg.solve(H, rows.mean(axis=0))
    scores = model.row_scores()
    np.testing.assert_allclose(scores, exact, rtol=0, atol=2e-3 * np.abs(exact).max())
    free = model.linear_scores()
    assert np.isneginf(free[:12]).all()
    np.testing.assert_array_equal(free[12:], scores[12:])


def test_a_linear_network_chooses_what_logistic_regression_chooses(data):
    X, y = data
    exact = Logistic(1e-1, penalise_intercept=True)
    options = dict(size=21, strategy=Forward(9, n_start=12), rule="linear", random_state=3)
    logistic = BilevelCoreset(exact, **options).fit(X, y)
    net = torch.nn.Linear(4, 3)
    train = TrainConfig(n_steps=3000, learning_rate=0.1, weight_decay=1e-1)
    network = BilevelCoreset(Network(net, train=train), ihvp="cg", **options).fit(X, y)
    assert network.indices_[:12].tolist() == logistic.indices_[:12].tolist()
    assert len(np.intersect1d(network.indices_[12:], logistic.indices_[12:])) >= 8


def test_an_indefinite_hessian_is_told(data, monkeypatch):
    model = selection(data, Network(small_net(), train=QUICK, curvature="hessian"), NeumannSeries(300))
    scale = np.ones(sum(s.numel() for s in model._shapes))
    scale[::2] = -0.5
    monkeypatch.setattr(model, "product", lambda rng: lambda v: scale * v)
    with pytest.raises(ConvergenceError, match="gauss-newton"):
        model.row_scores()


def test_training_that_diverges_says_where(data):
    X, y = data
    problem = Network(small_net(), lambda o, t: (o**2).sum(dim=1), train=TrainConfig(n_steps=200, learning_rate=1e6))
    with pytest.raises(
        ConvergenceError, match=r"diverged in step \d+ of 200 \(epoch \d+\): loss (nan|inf).*TrainConfig"
    ):
        BilevelCoreset(problem, size=30, strategy=Forward(10), rule="linear").fit(X, y.astype(float))


def test_a_bare_module_and_targets_without_a_loss_get_the_way_out(data):
    X, y = data
    with pytest.raises(ValueError, match=r"got Sequential\( .* goes into handful\.bilevel\.Network\(module\)\.$"):
        BilevelCoreset(small_net(), size=30).fit(X, y)
    with pytest.raises(
        ValueError, match=r"Unknown label type: continuous\. Without a loss, Network needs y to hold clas"
    ):
        BilevelCoreset(Network(small_net(classes=1).float(), train=QUICK), size=30).fit(X, X[:, 0])


def test_a_factory_is_called_anew_each_round_and_the_module_stays_as_it_was(data):
    X, y = data
    made = []

    def make():
        made.append(small_net().float())
        return made[-1]

    BilevelCoreset(Network(make, train=QUICK), size=30, strategy=Forward(10, n_start=10), rule="linear").fit(X, y)
    assert len(made) == 2
    net = small_net().float()
    before = [p.clone() for p in net.parameters()]
    BilevelCoreset(Network(net, train=QUICK), size=30, strategy=Forward(10, n_start=10), rule="linear").fit(X, y)
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters()))


def test_joint_networks_take_turns(data, monkeypatch):
    X, y = data
    trained, fit = [], Network.fit_module

    def watch(self, X, y, rng):
        trained.append((self.random_state, len(X)))
        return fit(self, X, y, rng)

    monkeypatch.setattr(Network, "fit_module", watch)
    problem = Joint(
        Network(small_net(0).float(), train=QUICK, random_state=0),
        Network(small_net(1).float(), train=QUICK, random_state=1),
        alternate=True,
    )
    BilevelCoreset(problem, size=40, strategy=Forward(10, n_start=10), rule="linear", random_state=0).fit(X, y)
    assert trained == [(0, 10), (1, 20), (0, 30)]


def test_images_with_batch_normalisation_dropout_and_augmentation_are_the_same_twice():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = rng.normal(size=(40, 64)) + y[:, None]

    def make():
        return torch.nn.Sequential(
            torch.nn.Unflatten(1, (1, 8, 8)), torch.nn.Conv2d(1, 4, 3, stride=2), torch.nn.BatchNorm2d(4),
            torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Dropout(0.4), torch.nn.Linear(36, 2),
        )  # fmt: skip

    def noise(X, generator):
        return X + 0.1 * torch.randn(X.shape, generator=generator)

    train = TrainConfig(n_steps=12, batch_size=8, learning_rate=0.05, augment=noise, bfloat16=True)
    options = dict(size=16, strategy=Forward(4, n_start=4), rule="linear", random_state=0)
    runs = [BilevelCoreset(Network(make, train=train), **options).fit(X, y) for _ in range(2)]
    np.testing.assert_array_equal(runs[0].indices_, runs[1].indices_)
    assert np.bincount(y[runs[0].indices_], minlength=2).min() > 0


@pytest.mark.parametrize(
    "module",
    [
        lambda: torch.nn.Linear(7, 3),
        torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten()),
        torch.nn.Sequential(torch.nn.Unflatten(1, (2, 3)), torch.nn.Flatten(), torch.nn.Linear(6, 3)),
    ],
)
def test_a_module_for_other_rows_is_told_theirs(data, module):
    X, y = data
    name = "Linear" if not isinstance(module, torch.nn.Module) else "Sequential"
    message = rf"module {name} must take rows as they lie in X, of shape \(4,\) \(images.*, but fails on 20 of them: ."
    problem = Network(module, train=TrainConfig(n_steps=5, batch_size=32))
    with pytest.raises(ValueError, match=message) as caught:
        BilevelCoreset(problem, size=30, strategy=Forward(n_start=20), rule="linear", random_state=0).fit(X, y)
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize("rows", [range(12), range(0, 12, 3)], ids=["all classes chosen", "one class chosen"])
def test_a_module_with_too_few_outputs_is_told_the_classes(data, rows):
    message = r"one number for each of 3 classes, outputs of shape \(\d+, 3\), but gives \(\d+, 2\)"
    with pytest.raises(ValueError, match=message):
        selection(data, Network(small_net(classes=2), train=QUICK), rows=rows)
    selection(data, Network(small_net(classes=4), train=QUICK), rows=rows)  # more than classes are no harm


def test_probabilities_ask_for_as_many_outputs(data):
    X, y = data
    problem = Network(small_net(classes=4), train=QUICK)
    with pytest.raises(ValueError, match=r"each of 3 classes, .* but gives \(12, 4\)"):
        selection((X, np.eye(3, dtype=np.float32)[y]), problem)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(ihvp="cg"), r"the scores of \d+ of 60 rows are not finite \(first: row \d+\).*scale the data"),
        (dict(ihvp="cg", strategy=Forward(5)), r"the scores of \d+ of 60 rows are not finite"),
        (dict(), r"Hessian that is finite and not zero, but a product with it has length nan|scores of \d+ of 60"),
    ],
)
def test_scores_that_are_not_finite_are_told(data, options, message):
    X, y = data

    class Root(torch.nn.Linear):
        def forward(self, X):
            return super().forward(torch.sqrt(X + 6.0))  # of the row below: not a number

    X = np.vstack([X, np.full((1, 4), -7.0)])[-60:]
    y = np.append(y, 0)[-60:]
    options_ = dict(strategy=Forward(n_start=9), rule="linear", random_state=1)
    selector = BilevelCoreset(Network(Root(4, 3), train=QUICK), size=40, **options_)
    with pytest.raises(ConvergenceError, match=message):
        selector.set_params(**options).fit(X, y)


def test_rows_beyond_the_network_s_type_are_told(data):
    X, y = data
    X = X.copy()
    X[50] = 1e40
    with pytest.raises(ValueError, match=r"X has entries that torch.float32.*scale the data"):
        BilevelCoreset(Network(small_net().float(), train=QUICK), size=30, rule="linear", random_state=0).fit(X, y)


def test_a_float64_network_sees_float64_rows(data):
    X, y = data
    X = X + 1e9
    model = selection((X, y), Network(small_net(), train=QUICK))
    np.testing.assert_array_equal(model._X.numpy(), X)


def test_where_all_rows_are_fitted_any_will_do_and_not_the_first(data):
    # saturated to the last digit: gradients are zero
    y = np.repeat([0, 1, 2], 20)
    X = 1e4 * np.eye(4)[y].astype(np.float32)
    net = torch.nn.Linear(4, 3)
    with torch.no_grad():
        net.weight.copy_(torch.eye(4)[:3])
        net.bias.zero_()
    problem = Network(net, train=TrainConfig(n_steps=1, learning_rate=1e-6))
    options = dict(size=30, strategy=Forward(10, n_start=10), rule="linear", random_state=0)
    selector = BilevelCoreset(problem, **options).fit(X, y)
    assert len(np.unique(selector.indices_)) == 30
    assert np.bincount(y[selector.indices_]).min() >= 6  # the first rows would be of class 0 alone
    again = BilevelCoreset(problem, **options).fit(X, y)
    np.testing.assert_array_equal(selector.indices_, again.indices_)


@pytest.mark.parametrize(("ihvp", "alike"), [(ConjugateGradients(), True), (None, False)], ids=str)
def test_conjugate_gradients_keep_to_one_minibatch(data, ihvp, alike):
    model = selection(data, Network(small_net(), train=QUICK, curvature_batch_size=4), ihvp)
    v = np.random.default_rng(0).normal(size=len(model.outer_gradient()))
    product = model.product(np.random.default_rng(0))
    assert np.array_equal(product(v), product(v)) == alike


def test_damping_is_added_to_the_hessian(data):
    ihvp = ConjugateGradients(2000, damping=0.3)
    model = selection(data, Network(small_net(), train=QUICK), ihvp)
    _, H = dense(model, "gauss-newton")
    g = model.outer_gradient()
    v = model._solve(g, np.random.default_rng(0))
    np.testing.assert_allclose(v, np.linalg.solve(H + 0.3 * np.eye(len(g)), g), rtol=2e-4, atol=1e-6)


def test_rows_without_weight_are_not_chosen(data):
    X, y = data
    weight = np.ones(60)
    weight[::2] = 0.0
    problem = Network(small_net().float(), train=QUICK)
    selector = BilevelCoreset(problem, size=25, strategy=Forward(5, n_start=6), rule="linear", random_state=0)
    assert (selector.fit(X, y, sample_weight=weight).indices_ % 2 == 1).all()


class Pair(torch.nn.Linear):
    def forward(self, X):
        return super().forward(X), X


@pytest.mark.parametrize(
    ("problem", "targets", "message"),
    [
        (Network(Pair(4, 3)), None, "one tensor with an output for each of .* rows, got tuple"),
        (Network(small_net(), torch.nn.BCEWithLogitsLoss(reduction="none")), np.eye(3, dtype=int)[np.arange(60) % 3],
         r"loss fails on outputs of shape \(\d+, 3\) and targets of shape \(\d+, 3\), torch.int64: "),
        (Network(small_net(), torch.nn.CrossEntropyLoss(reduction="none")), np.array(["a", "b", "c"] * 20),
         "a loss of your own takes numbers as y, got <U1: encode the labels"),
        (Network(small_net()), -np.eye(3)[np.arange(60) % 3], "soft targets must not be negative"),
        (Network(small_net().requires_grad_(False)), None, "no parameter that asks for a gradient"),
        (Network(small_net(), "cross_entropy"), None, "loss must be a function"),
        (Network(small_net(), train={"steps": 30}), None, "train must be a TrainConfig or None"),
        (Network(small_net(), device="gpu"), None, "device='gpu' is unknown to torch"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_told(data, problem, targets, message):
    X, y = data
    selector = BilevelCoreset(problem, size=30, strategy=Forward(n_start=9), rule="linear", random_state=0)
    with pytest.raises(ValueError, match=message):
        selector.fit(X, y if targets is None else targets)


def test_classes_as_rows_of_integers_are_probabilities(data):
    X, y = data
    options = dict(size=20, strategy=Forward(5, n_start=10), rule="linear", random_state=0)
    net = small_net().float()
    as_rows = BilevelCoreset(Network(net, train=QUICK), **options).fit(X, np.eye(3, dtype=int)[y])
    as_floats = BilevelCoreset(Network(net, train=QUICK), **options).fit(X, np.eye(3)[y])
    np.testing.assert_array_equal(as_rows.indices_, as_floats.indices_)


def test_a_full_memory_is_not_blamed_on_the_module(data):
    class Hungry(torch.nn.Linear):
        def forward(self, X):
            raise torch.OutOfMemoryError("full")

    with pytest.raises(torch.OutOfMemoryError):
        BilevelCoreset(Network(Hungry(4, 3), train=QUICK), size=30, rule="linear").fit(*data)


WITHOUT_TORCH = """
import sys

class Hidden:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "torch":
            raise ImportError(name)

sys.meta_path.insert(0, Hidden())
import handful.continual
from handful.bilevel import BilevelCoreset, Network

def fit():
    BilevelCoreset(Network(lambda: None), size=2, rule="linear").fit([[0.0], [1.0], [2.0]], [0, 1, 1])

for use in (fit, lambda: handful.continual.network_views):
    try:
        use()
    except ImportError as error:
        print(error)
"""


def test_what_needs_torch_is_at_hand_and_without_torch_says_so():
    from handful import continual
    from handful.continual.views import Views, network_views

    assert (continual.Views, continual.network_views) == (Views, network_views)
    with pytest.raises(AttributeError, match=r"'handful\.continual' has no attribute 'VLC'"):
        continual.VLC  # noqa: B018
    said = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True).stdout
    wanted = ("Network needs", "views of a torch network need")
    assert said.splitlines() == [f"{who} torch: pip install torch." for who in wanted]


def test_importing_the_rooms_does_not_import_torch():
    code = "import handful.bilevel, handful.continual, sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_defaults_suit_a_network_and_grow_with_the_data(data, capsys):
    X, y = data
    rows = Rows(X.astype(np.float32), y, np.ones(len(X)), np.array([], int))
    many = replace(rows, sample_weight=np.ones(5000))
    problem = Network(small_net().float())
    assert [problem.model(part, None).problem.training().n_steps for part in (rows, many)] == [200, 1000]
    assert Network(small_net(), train=QUICK).model(rows, None).problem.training() == QUICK
    assert problem.train is None
    sizes, add = [], NetworkModel.add
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NetworkModel, "add", lambda self, new: (sizes.append(len(new)), add(self, new))[1])
        BilevelCoreset(Network(small_net().float(), train=QUICK), size=30, random_state=0).fit(X, y)
    assert sizes[1:] == [3] * 6 + [2]  # ten at random, then a tenth of the coreset a round
    assert capsys.readouterr().err == ""
    BilevelCoreset(Network(small_net().float(), train=QUICK), size=30, random_state=0, verbose=True).fit(X, y)
    assert f"7 rounds of {QUICK.n_steps} training steps, about " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "fit", "message"),
    [
        (dict(module=3), {}, "module must be a torch module or a function"),
        (dict(curvature="fisher"), {}, "curvature must be one of"),
        (dict(batch_size=0), {}, "batch_size must be an integer of at least 1"),
        (dict(train=TrainConfig(n_steps=0)), {}, "n_steps of TrainConfig must be an integer of at least 1"),
        (dict(train=TrainConfig(learning_rate=float("nan"))), {}, "learning_rate of TrainConfig"),
        (dict(train=TrainConfig(optimiser="lbfgs")), {}, "optimiser of TrainConfig must be one of"),
        (dict(device="cuda"), {}, "torch finds no CUDA device here"),
        (dict(loss=lambda o, t: (o**2).mean()), {}, "loss must give one number a row"),
        ({}, dict(rule="quadratic"), "rule='linear'"),
        ({}, dict(strategy="exchange"), "strategy='forward'"),
        ({}, dict(weighting="optimised"), "weighting='binary'"),
        ({}, dict(ihvp="exact"), "take 'neumann' or 'cg'"),
    ],
)
def test_bad_options_are_named(data, options, fit, message, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    X, y = data
    problem = Network(**{"module": small_net().float(), "train": QUICK, **options})
    with pytest.raises(ValueError, match=message):
        BilevelCoreset(problem, **{"size": 20, "rule": "linear", **fit}).fit(X, y)
