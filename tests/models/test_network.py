"""Networks as inner problems, against dense derivatives and plain loops."""

import subprocess
import sys
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from handful import BilevelCoreset, Logistic
from handful.bilevel import ConvergenceError, Forward
from handful.models import Network, Problem
from handful.models.base import OuterRows
from handful.models.inverse import ConjugateGradients, NeumannSeries
from handful.models.network import TrainConfig
from torch.nn.attention import SDPBackend, sdpa_kernel

QUICK = TrainConfig(n_steps=60, learning_rate=2e-2, optimiser="adam", weight_decay=2e-2)


def small_net(seed=0, d=4, classes=3):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(d, 5), torch.nn.Tanh(), torch.nn.Linear(5, classes)
    ).double()


def attentive_net():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(2, 1, 3, dropout=0.0, batch_first=True)
    return torch.nn.Sequential(
        torch.nn.Unflatten(1, (2, 2)), layer, torch.nn.Flatten(), torch.nn.Linear(4, 3)
    ).double()


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    return rng.normal(size=(60, 4)) + np.eye(4)[y] * 2, y


def selection(data, problem, ihvp=None, rows=range(12), *, penalised=False):
    X, y = data
    rows_of = OuterRows(X, y, np.ones(len(X)), np.empty(0, int), penalised)
    model = problem.model(rows_of, None, ihvp=ihvp)
    model.add_rows(list(rows))
    model.fit()
    return model


def dense(model, curvature):
    """Gradients of all rows, (n, p), and the inner Hessian, (p, p), by reverse mode, a row at a
    time."""
    theta = model.theta
    outputs = model._outputs

    def mean_loss(flat, X, y):
        return torch.nn.functional.cross_entropy(outputs(flat, X), y)

    X = model._X
    y = model._y
    rows = torch.stack(
        [
            torch.autograd.functional.jacobian(
                lambda t, i=i: mean_loss(t, X[i : i + 1], y[i : i + 1]), theta
            )
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


@pytest.mark.parametrize("net", [small_net, attentive_net])
@pytest.mark.parametrize("curvature", ["gauss-newton", "hessian"])
def test_products_are_those_of_the_dense_hessian(data, curvature, net):
    model = selection(data, Network(net(), train=QUICK, curvature=curvature))
    with sdpa_kernel(SDPBackend.MATH):
        _, H = dense(model, curvature)
    v = np.random.default_rng(1).normal(size=len(H))
    np.testing.assert_allclose(model.hvp(np.random.default_rng(0))(v), H @ v, rtol=1e-8, atol=1e-10)


class Recurrent(torch.nn.LSTM):
    def forward(self, X):
        return super().forward(X[:, :, None])[0][:, -1]


def test_what_torch_cannot_differentiate_is_named_and_bfloat16_is_taken(data):
    few = BilevelCoreset(
        Network(Recurrent(1, 3, batch_first=True), train=QUICK), size=15, rule="linear"
    )
    with pytest.raises(ValueError, match="differentiates in forward mode"):
        few.fit(*data)
    few.set_params(problem=Network(small_net().bfloat16(), train=QUICK))
    assert len(few.fit(*data).indices_) == 15


@pytest.mark.parametrize("ihvp", [ConjugateGradients(200), NeumannSeries(500)])
def test_scores_are_the_implicit_gradients(data, ihvp):
    model = selection(data, Network(small_net(), train=QUICK, batch_size=7), ihvp)
    rows, H = dense(model, "gauss-newton")
    exact = rows @ np.linalg.solve(H, rows.mean(axis=0))
    scores = model.implicit_gradients()
    np.testing.assert_allclose(scores, exact, rtol=0, atol=2e-3 * np.abs(exact).max())
    free = model.candidate_scores()
    assert np.isneginf(free[:12]).all()
    np.testing.assert_array_equal(free[12:], scores[12:])


def test_the_outer_loss_of_a_network_may_have_its_weight_decay(data):
    plain, penalised = (
        selection(data, Network(small_net(), train=QUICK), penalised=pen) for pen in (False, True)
    )
    decay = QUICK.weight_decay
    theta = plain.theta.numpy()
    np.testing.assert_array_equal(theta, penalised.theta.numpy())
    added = penalised.outer_gradient() - plain.outer_gradient()
    np.testing.assert_allclose(added, decay * theta, rtol=1e-6, atol=1e-9)
    added = penalised.mean_loss() - plain.mean_loss()
    assert added == pytest.approx(0.5 * decay * theta @ theta)


def test_a_linear_network_chooses_what_logistic_regression_chooses(data):
    X, y = data
    exact = Logistic(1e-1, penalise_intercept=True)
    options = dict(
        size=21, strategy=Forward(9, n_start=12), rule="linear", weighting="equal", random_state=3
    )
    logistic = BilevelCoreset(exact, **options).fit(X, y)
    net = torch.nn.Linear(4, 3)
    train = TrainConfig(n_steps=3000, learning_rate=0.1, weight_decay=1e-1)
    network = BilevelCoreset(Network(net, train=train), ihvp="cg", **options).fit(X, y)
    assert network.indices_[:12].tolist() == logistic.indices_[:12].tolist()
    assert len(np.intersect1d(network.indices_[12:], logistic.indices_[12:])) >= 8


def test_an_indefinite_hessian_is_told(data, monkeypatch):
    model = selection(
        data, Network(small_net(), train=QUICK, curvature="hessian"), NeumannSeries(300)
    )
    scale = np.ones(len(model.theta))
    scale[::2] = -0.5
    monkeypatch.setattr(model, "hvp", lambda rng: lambda v: scale * v)
    with pytest.raises(ConvergenceError, match="gauss-newton"):
        model.implicit_gradients()


def test_training_that_diverges_says_where(data):
    X, y = data
    problem = Network(
        small_net(),
        lambda o, t: (o**2).sum(dim=1),
        train=TrainConfig(n_steps=200, learning_rate=1e6),
    )
    with pytest.raises(
        ConvergenceError,
        match=r"diverged in step \d+ of 200 \(epoch \d+\): loss (nan|inf).*TrainConfig",
    ):
        BilevelCoreset(problem, size=30, strategy=Forward(10), rule="linear").fit(
            X, y.astype(float)
        )


@pytest.mark.parametrize(
    "module",
    [
        lambda: torch.nn.Linear(7, 3),
        torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten()),
        torch.nn.Sequential(
            torch.nn.Unflatten(1, (2, 3)), torch.nn.Flatten(), torch.nn.Linear(6, 3)
        ),
    ],
)
def test_a_module_for_other_rows_is_told_theirs(data, module):
    X, y = data
    name = "Linear" if not isinstance(module, torch.nn.Module) else "Sequential"
    message = (
        rf"module {name} must take rows as they lie in X, of shape \(4,\) \(images.*, "
        "but fails on 20 of them: ."
    )
    problem = Network(module, train=TrainConfig(n_steps=5, batch_size=32))
    with pytest.raises(ValueError, match=message) as caught:
        BilevelCoreset(
            problem, size=30, strategy=Forward(n_start=20), rule="linear", random_state=0
        ).fit(X, y)
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize("options", [dict(ihvp="cg"), {}], ids=str)
def test_scores_that_are_not_finite_are_told(data, options):
    message = (
        r"the scores of \d+ of 60 rows are not finite|"
        "finite and not zero, but a product with it has length nan"
    )
    X, y = data

    class Root(torch.nn.Linear):
        def forward(self, X):
            # of the row below: not a number
            return super().forward(torch.sqrt(X + 6.0))

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
        BilevelCoreset(
            Network(small_net().float(), train=QUICK), size=30, rule="linear", random_state=0
        ).fit(X, y)


def test_few_points_of_a_network_are_chosen_one_by_one(data):
    options = dict(problem=Network(small_net(), train=QUICK), size=12, random_state=0)
    by_default = BilevelCoreset(**options).fit(*data)
    one_by_one = BilevelCoreset(**options, strategy=Forward(batch_size=1)).fit(*data)
    assert by_default.indices_.tolist() == one_by_one.indices_.tolist()


def test_probabilities_in_place_of_logits_are_warned_of(data, recwarn):
    net = small_net()
    for module, expected in [(torch.nn.Sequential(net, torch.nn.Softmax(1)), True), (net, False)]:
        recwarn.clear()
        BilevelCoreset(Network(module, train=QUICK), size=12, random_state=0).fit(*data)
        assert any("leave out the module's Softmax" in str(w.message) for w in recwarn) == expected


@pytest.mark.parametrize(("ihvp", "alike"), [(ConjugateGradients(), True), (None, False)], ids=str)
def test_conjugate_gradients_keep_to_one_minibatch(data, ihvp, alike):
    model = selection(data, Network(small_net(), train=QUICK, curvature_batch_size=4), ihvp)
    v = np.random.default_rng(0).normal(size=len(model.outer_gradient()))
    hvp = model.hvp(np.random.default_rng(0))
    assert np.array_equal(hvp(v), hvp(v)) == alike


class Pair(torch.nn.Linear):
    def forward(self, X):
        return super().forward(X), X


WORDS = np.array(["a", "b", "c"] * 20)
NUMBERS = np.linspace(0, 1, 60)


@pytest.mark.parametrize(
    ("options", "targets", "fit", "message"),
    [
        (
            dict(module=Pair(4, 3)),
            None,
            {},
            ("one tensor with an output for each of .* rows, got tuple"),
        ),
        (dict(loss=lambda o, t: (o**2).mean()), None, {}, "loss must give one number a row"),
        (
            dict(module=torch.nn.Linear(4, 1), loss=lambda o, t: ((o - t) ** 2).mean(1)),
            NUMBERS,
            {},
            ("loss of a row must not depend on the other rows of its batch"),
        ),
        (
            dict(loss=torch.nn.CrossEntropyLoss(reduction="none")),
            WORDS,
            {},
            ("takes numbers as y, got <U1: encode"),
        ),
        ({}, NUMBERS, {}, r"type: continuous\. Without a loss, Network needs y to hold classes"),
        (
            dict(module=small_net().requires_grad_(False)),
            None,
            {},
            ("no parameter that asks for a gradient"),
        ),
        (
            {},
            None,
            dict(problem=small_net()),
            r"Sequential\( .* goes into handful\.models\.Network\(module\)\.$",
        ),
        ({}, None, dict(rule="quadratic"), "rule='linear'"),
    ],
)
def test_what_does_not_fit_together_is_told(data, options, targets, fit, message):
    X, y = data
    problem = Network(**{"module": small_net(), "train": QUICK, **options})
    with pytest.raises(ValueError, match=message):
        BilevelCoreset(**{"problem": problem, "size": 30, "random_state": 0, **fit}).fit(
            X, y if targets is None else targets
        )


WITHOUT_TORCH = """
import sys

class Hidden:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(name, name="torch")

sys.meta_path.insert(0, Hidden())
import handful.bilevel, handful.continual

class Own(handful.models.Problem):
    l2 = 1e-2

    def loss(self, theta, x, y):
        return (x @ theta - y) ** 2

def fit():
    handful.bilevel.BilevelCoreset(Own(), size=2).fit([[0.0], [1.0], [2.0]], [0, 1, 1])

for use in (lambda: handful.models.Network, fit, lambda: handful.continual.network_views):
    try:
        use()
    except ImportError as error:
        print(error)
"""


def test_what_needs_torch_says_so_without():
    said = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True
    ).stdout
    wanted = ("Network needs", "a Problem with a loss in torch needs", "network_views needs")
    assert said.splitlines() == [f"{who} torch: pip install torch." for who in wanted]


class Poisson(Problem):
    """Counts of mean exp(x' theta), the loss in torch."""

    def __init__(self, l2=0.1):
        self.l2 = l2

    def loss(self, theta, x, y):
        return torch.exp(x @ theta) - y * (x @ theta)


class ByHand(Poisson):
    loss = Problem.loss

    def losses(self, theta, X, y):
        return np.exp(X @ theta) - y * (X @ theta)

    def gradients(self, theta, X, y):
        return (np.exp(X @ theta) - y)[:, None] * X

    def hessian(self, theta, X, y, weights):
        return (X.T * (weights * np.exp(X @ theta))) @ X + self.l2 * np.eye(X.shape[1])


@pytest.fixture
def counts():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    return X, rng.poisson(np.exp(X @ [0.5, -0.5, 0.2]))


def test_torch_takes_the_derivatives_of_a_loss_of_ones_own(counts):
    X, y = counts
    theta = np.array([0.3, 0.1, -0.4])
    weights = np.random.default_rng(1).random(80)
    for name, arguments in (
        ("losses", ()),
        ("gradients", ()),
        ("row_hessians", ()),
        ("hessian", (weights,)),
    ):
        auto, hand = (
            getattr(problem, name)(theta, X, y, *arguments) for problem in (Poisson(), ByHand())
        )
        np.testing.assert_allclose(auto, hand, rtol=1e-12, atol=1e-12)
    for problem in (Poisson(), ByHand()):
        assert problem.penalty_at(theta, X, y) == pytest.approx(0.05 * theta @ theta)


@pytest.mark.parametrize("noise", [0.0, 1e-17, 1e-12, 1e-3, 1.0])
@pytest.mark.parametrize("problem", [Poisson(), ByHand()])
def test_a_problem_is_solved_from_a_start_that_is_its_solution(problem, noise):
    # The mean of a count of one is exp(0): where all counts are one, zero is the solution, and its
    # gradient is nothing but rounding.
    X = np.random.default_rng(0).normal(size=(2, 3))
    start = noise * np.random.default_rng(1).normal(size=3)
    found = problem.solve(X, np.ones(2), np.array([1.0, 0.0]), start=start)
    np.testing.assert_allclose(found, 0, atol=1e-9)


def test_a_problem_whose_curvature_is_wrong_counts_as_not_solved(counts):
    class Crooked(ByHand):
        def gradients(self, theta, X, y):
            return -super().gradients(theta, X, y) + 0.3

    with pytest.raises(ConvergenceError, match=r"on 80 points was not solved in 200 Newton steps"):
        Crooked().solve(*counts, np.full(80, 1 / 80))


def test_a_loss_that_gives_no_number_is_named(counts):
    class Several(Poisson):
        def loss(self, theta, x, y):
            return x * theta

    message = (
        r"Several\.loss\(theta, x, y\) must give one number for a row x of shape \(3,\) "
        r"and theta of shape \(3,\)"
    )
    with pytest.raises(ValueError, match=message):
        BilevelCoreset(Several(), size=8).fit(*counts)


class Unpenalised(Problem):
    def loss(self, theta, x, y):
        return (x @ theta - y) ** 2


def test_a_problem_in_torch_without_a_penalty_is_told_what_it_lacks(counts):
    with pytest.raises(TypeError, match=r"Unpenalised must have a field l2.*or a method penalty"):
        BilevelCoreset(Unpenalised(), size=8).fit(*counts)


class Margin(Problem):
    l2: float = 1e-2
    classifies = True

    def loss(self, theta, x, y):
        return torch.nn.functional.softplus(-(2 * y - 1) * (x @ theta))


@pytest.mark.parametrize("dtype", ["i1", "u1", "u2", "u4", "i4", "f4"])
def test_a_loss_of_labels_is_the_same_whatever_holds_them(dtype, rng):
    X = rng.normal(size=(100, 4))
    y = (X[:, 0] + 0.3 * rng.normal(size=100) > 0).astype(np.int64)

    def chosen(problem, labels):
        return BilevelCoreset(problem, size=6, random_state=0).fit(X, labels).indices_

    net = torch.nn.Linear(4, 1)
    config = TrainConfig(n_steps=20)
    with_loss = Network(
        net,
        loss=lambda outputs, y: torch.nn.functional.softplus(-(2 * y - 1) * outputs[:, 0]),
        train=config,
    )
    for problem in (Margin(), with_loss):
        np.testing.assert_array_equal(chosen(problem, y.astype(dtype)), chosen(problem, y))


def test_labels_that_torch_cannot_hold_are_named():
    X = np.random.default_rng(0).normal(size=(60, 4))
    with pytest.raises(ValueError, match="turn the labels into numbers in the problem's `encode`"):
        BilevelCoreset(Margin(), size=8).fit(X, np.array(["no", "yes"] * 30))


BINARY = partial(torch.nn.functional.binary_cross_entropy_with_logits, reduction="none")


def of_first_output(outputs, y):
    return BINARY(outputs[:, 0], y)


@pytest.mark.parametrize(
    ("labels", "loss"),
    [
        (np.int64, of_first_output),
        (bool, of_first_output),
        (np.uint8, of_first_output),
        (float, BINARY),
    ],
)
def test_a_loss_of_floats_says_what_it_takes(labels, loss, rng):
    X = rng.normal(size=(80, 4))
    y = (X[:, 0] > 0).astype(labels)
    problem = Network(torch.nn.Linear(4, 1), loss=loss, train=TrainConfig(n_steps=5))
    ways = r"loss must take outputs.* takes outputs\[:, 0\] and y.astype\(float\)"
    with pytest.raises(ValueError, match=ways):
        BilevelCoreset(problem, size=12, random_state=0).fit(X, y)
    problem = Network(torch.nn.Linear(4, 1), loss=of_first_output, train=TrainConfig(n_steps=5))
    chosen = BilevelCoreset(problem, size=12, random_state=0).fit(X, y.astype(float))
    assert len(chosen.indices_) == 12


FAR = 1.7e9
CE = partial(torch.nn.functional.cross_entropy, reduction="none")


class Far(torch.nn.Linear):
    def forward(self, X):
        return super().forward(X) + FAR


def test_a_double_module_sees_every_digit_of_its_targets(data):
    X, _ = data
    y = FAR + X[:, 0]
    seen = []

    def loss(outputs, targets):
        seen.append(targets)
        return (outputs[:, 0] - targets) ** 2

    problem = Network(Far(4, 1).double(), loss, train=QUICK)
    BilevelCoreset(problem, size=12, random_state=0).fit(X, y)
    # those of the first training: later ones may be wrapped for derivatives
    targets = torch.cat(seen[: QUICK.n_steps]).numpy()
    assert targets.dtype == np.float64
    assert set(targets.tolist()) <= set(y.tolist())


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (torch.float64, torch.float64),
        (torch.float32, torch.float32),
        (torch.bfloat16, torch.float32),
    ],
)
@pytest.mark.parametrize("given", [np.float16, np.float32, np.float64])
def test_targets_come_in_the_module_s_type_and_not_below_single_precision(module, expected, given):
    X = torch.arange(8.0, dtype=torch.float64).reshape(4, 2)
    problem = Network(torch.nn.Linear(2, 1).to(module), loss=lambda o, t: (o[:, 0] - t) ** 2)
    y = torch.as_tensor(problem.encode(np.linspace(0, 1, 4).astype(given)))
    X, y = problem.in_type_of(problem.module, X, y)
    assert (X.dtype, y.dtype) == (module, expected)
    exact = np.linspace(0, 1, 4).astype(given).astype(np.float64)
    np.testing.assert_array_equal(y, torch.as_tensor(exact).to(expected))


@pytest.mark.parametrize("row", [0, 50])
def test_targets_beyond_the_network_s_type_are_told(row, data):
    X, y = data
    y = y.astype(float)
    y[row] = 1e39
    problem = Network(
        torch.nn.Linear(4, 1), lambda o, t: (o[:, 0] - t).abs().clamp(max=1), train=QUICK
    )
    coreset = BilevelCoreset(problem, size=12, random_state=0)
    with pytest.raises(ValueError, match=r"y has entries that torch.float32.*scale the data"):
        coreset.fit(X, y)
    problem.module = problem.module.double()
    assert len(coreset.fit(X, y).indices_) == 12


def with_a_rare_label(y):
    return np.append(y[:-1], 3)


CLASS_WEIGHTS = torch.tensor(np.array([1.0, 5.0, 1.0]))


@pytest.mark.parametrize(
    ("outputs", "loss", "targets", "message"),
    [
        (3, CE, with_a_rare_label, "Target 3 is out of bounds. Labels are numbered from 0, and"),
        (3, CE, lambda y: y + 1, "Target 3 is out of bounds. Labels are numbered from 0, and"),
        (3, partial(CE, weight=CLASS_WEIGHTS), None, "found Double.*must be torch.float32"),
        (3, CE, lambda y: y.astype(float), r"but got Float. A loss of classes.*y.astype\(int\)"),
        (3, CE, lambda y: y > 0, r"but got Bool. A loss of classes.*y.astype\(int\)"),
        (
            1,
            lambda o, t: BINARY(o.squeeze(), (t > 0).float()),
            None,
            r"shape \(1, 1\).*takes outputs\[:, 0\]",
        ),
        (3, lambda o, t: o[:, 7], None, r"index 7 is out of bounds for dimension 1 with size 3\.$"),
        (3, lambda o, t: CE(o, t).mean().item(), None, r"a tensor of shape \(\d+,\), got float"),
        (3, lambda o, t: CE(o, t).detach().numpy(), None, r"shape \(\d+,\), got ndarray"),
        (3, lambda o, t: None, None, r"a tensor of shape \(\d+,\), got NoneType"),
    ],
)
def test_a_loss_that_fails_says_what_it_takes(outputs, loss, targets, message, data):
    X, y = data
    problem = Network(torch.nn.Linear(4, outputs), loss, train=QUICK)
    with pytest.raises(ValueError, match=message) as caught:
        BilevelCoreset(problem, size=12, random_state=0).fit(X, targets(y) if targets else y)
    assert "numbers, such as a binary" not in str(caught.value) or outputs == 1


def test_a_loss_that_fails_in_a_later_minibatch_says_what_it_takes(data):
    X, y = data
    train = TrainConfig(n_steps=60, batch_size=3)
    problem = Network(torch.nn.Linear(4, 3), CE, train=train)
    rng = np.random.default_rng(0)
    rows = torch.as_tensor(X)
    labels = torch.as_tensor(with_a_rare_label(y))
    with pytest.raises(ValueError, match=r"out of bounds\. Labels are numbered from 0"):
        problem.fit_module(rows, labels, rng)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (torch.nn.Linear, r"'torch.nn.modules.linear.Linear'> asks for some \(missing.*call it"),
        (lambda d: torch.nn.Linear(d, 3), r"asks for some \(missing a required argument: 'd'\)"),
        (lambda: None, "which makes NoneType"),
        (3, "a function that makes one, got 3"),
    ],
)
def test_what_makes_no_module_is_told(module, message, data):
    with pytest.raises(ValueError, match=message):
        BilevelCoreset(Network(module, train=QUICK), size=12, random_state=0).fit(*data)


def test_a_class_or_a_function_without_arguments_makes_a_module(data):
    class Own(torch.nn.Linear):
        def __init__(self, d=4):
            super().__init__(d, 3)

    found = []
    for make in (Own, lambda: Own()):
        coreset = BilevelCoreset(Network(make, train=QUICK), size=12, random_state=0)
        found.append(coreset.fit(*data).indices_.tolist())
    assert found[0] == found[1]
