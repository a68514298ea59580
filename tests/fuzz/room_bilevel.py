"""Rows of the table: what a bilevel coreset is made of: problems, strategies, solvers, kernels, designs."""

import numpy as np
from handful import BilevelCoreset, bilevel
from handful.bilevel import proxies
from sklearn.ensemble import ExtraTreesClassifier, GradientBoostingClassifier, RandomTreesEmbedding

from fuzz.kinds import MAY_FAIL, boolean, choice, integer, labels, made, matrix, number, same, seed, vector
from fuzz.throw import call, entry

BY_NAME = {
    "random_state": seed(),
    "verbose": same(False),
    "memory": same(None),
    "l2": number(above=0, good=(0.01, 1.0)),
    "fit_intercept": boolean(),
    "penalise_intercept": boolean(),
    "damping": number(least=0, good=(0.0, 1e-3)),
    "tol": number(least=0, most=1, good=(1e-5, 1e-2)),
    "n_steps": integer(good=(1, 100)),
    "n_terms": integer(good=(1, 100)),
    "batch_size": integer(good=(1, 3), none=True),
    "max_iter": integer(good=(10, 50)),
    "design": choice("A", "V"),
    "prior_precision": number(least=0, good=(0.01, 1.0)),
    "gamma": number(above=0, good=(0.1, 1.0), none=True),
    "w_std": number(above=0, good=(1.0, 1.4)),
    "b_std": number(least=0, good=(0.05, 0.0)),
    "n_landmarks": integer(good=(1, 5, 512)),
    "cache": same(None),
}


def _few_rows(world):
    return world.X[:10, :3]


def _train(problem):
    """Selects with a problem made of the arguments."""

    def run(cls, arguments, world):
        rows = np.tile(world.X[:, :2], (3, 1)) + np.arange(3 * world.n)[:, None] % 3
        y = np.tile(world.code, 3)
        problem_ = problem(cls, arguments)
        y = None if isinstance(problem_, bilevel.GaussianMixture) else y
        alternate = getattr(problem_, "alternate", False)
        options = dict(rule="linear", weighting="binary") if alternate else {}
        return BilevelCoreset(problem_, size=5, random_state=0, **options).fit(rows, y)

    return run


def _strategy(cls, arguments, world):
    rows, y = np.tile(world.X[:, :2], (3, 1)) + 0.1 * np.arange(3 * world.n)[:, None] % 3, np.tile(world.code, 3)
    return BilevelCoreset(size=5, strategy=call(cls, arguments, world), random_state=0).fit(rows, y)


def _solver(cls, arguments, world):
    rows, y = np.tile(world.X[:, :2], (3, 1)), np.tile(world.code, 3)
    return BilevelCoreset(size=5, ihvp=call(cls, arguments, world), random_state=0).fit(rows, y)


def _checked(cls, arguments, world):
    made = call(cls, arguments, world)
    made.check()
    return True


def _kernel(cls, arguments, world):
    kernel = call(cls, arguments, world)
    K = kernel(arguments["X"])
    np.testing.assert_allclose(np.diag(K), kernel.diag(arguments["X"]), rtol=1e-3, atol=1e-3 * np.abs(K).max())
    return K


def _features(cls, arguments, world):
    return call(cls, arguments, world).fit_transform(arguments["X"])


def _matrix_of(function, arguments, world):
    return function(arguments["kernel"], arguments["X"], arguments["Y"])


def _join(cls, arguments):
    return cls(**{k: v for k, v in arguments.items() if k in ("problem_a", "problem_b", "trade_off", "alternate")})


def entries():
    problems = choice(bilevel.Logistic(1.0), bilevel.LeastSquares(), names="problem|Problem")
    positive = vector(lambda world: world.rng.random(world.n) + 0.1, least=0)
    simple = _train(lambda cls, arguments: call(cls, arguments, None))
    X = matrix(of=lambda world: world.X[:10], without="3-d", may="1e10 uneven_scales big_offset big_offset_float32")
    rows = {
        "Logistic": entry(bilevel.Logistic, BY_NAME, run=simple),
        "LeastSquares": entry(bilevel.LeastSquares, BY_NAME, run=simple),
        "GaussianMixture": entry(
            bilevel.GaussianMixture,
            BY_NAME,
            run=simple,
            n_components=integer(good=(1, 2)),
            n_init=integer(good=(1, 2)),
            prior=number(above=0, good=(1e-3, 0.1)),
            prior_variance=number(above=0, good=(1.0,)),
            most_rows=10,
        ),
        "Joint": entry(
            bilevel.Joint,
            BY_NAME,
            run=_train(_join),
            problem_a=problems,
            problem_b=problems,
            trade_off=number(above=0, good=(1.0, 0.1)),
            alternate=boolean(),
        ),
        "Forward": entry(
            bilevel.Forward,
            BY_NAME,
            run=_strategy,
            n_start=integer(good=(1, 3), none=True),
            every_class=boolean(),
        ),
        "Elimination": entry(bilevel.Elimination, BY_NAME, run=_strategy),
        "Exchange": entry(bilevel.Exchange, BY_NAME, run=_strategy),
        "Regularised": entry(
            bilevel.Regularised,
            BY_NAME,
            run=_strategy,
            threshold=number(least=0, below=1, good=(0.01, 0.1, 0.0)),
            plateau=integer(good=(3, 5)),
            shrink=number(above=0, most=1, good=(0.9, 0.99)),
            polish_max_iter=integer(0, good=(0, 1, 5)),
        ),
        "Exact": entry(bilevel.Exact, BY_NAME, run=_solver),
        "Cholesky": entry(bilevel.Cholesky, BY_NAME, run=_solver),
        "ConjugateGradients": entry(bilevel.ConjugateGradients, BY_NAME, run=_solver),
        "NeumannSeries": entry(bilevel.NeumannSeries, BY_NAME, run=_solver),
        "TrainConfig": entry(
            bilevel.TrainConfig,
            BY_NAME,
            run=_checked,
            batch_size=integer(),
            learning_rate=number(above=0, most=1e8),
            momentum=number(least=0, most=1e8),
            weight_decay=number(least=0, most=1e8),
            optimiser=choice("sgd", "adam"),
            augment=same(None),
            bfloat16=boolean(),
        ),
        "design_objective": entry(
            bilevel.design_objective, BY_NAME, X=matrix(), weights=positive, target=same(None), adjust=_rows_of_weights
        ),
        "design_gradient": entry(
            bilevel.design_gradient, BY_NAME, X=matrix(), weights=positive, target=same(None), adjust=_rows_of_weights
        ),
        "proxies.Linear": entry(proxies.Linear, BY_NAME, run=_kernel, X=X),
        "proxies.Polynomial": entry(
            proxies.Polynomial, BY_NAME, run=_kernel, X=X, degree=integer(good=(1, 3)), coef0=number(least=0)
        ),
        "proxies.RBF": entry(proxies.RBF, BY_NAME, run=_kernel, X=X),
        "proxies.NTK": entry(proxies.NTK, BY_NAME, run=_kernel, X=X, hidden=integer(0, good=(0, 1, 2))),
        "proxies.CNTK": entry(
            proxies.CNTK,
            BY_NAME,
            run=_kernel,
            X=matrix(of=lambda w: w.rng.normal(size=(3, 16)), without="3-d one_feature constant_feature"),
            filters=choice((3,), (3, 3)),
            head=choice("flatten", "pool"),
            hidden=integer(0, good=(0, 1)),
            shape=same(None),
            device=same(None),
        ),
        "proxies.Nystrom": entry(
            proxies.Nystrom,
            BY_NAME,
            run=_features,
            X=matrix(
                of=lambda world: world.X[:10],
                without="3-d",
                may="1e10 uneven_scales big_offset big_offset_float32 all_zero tiny tiny_float32 denormal",
            ),
            kernel=choice(proxies.RBF(0.1), proxies.Linear(), names="kernel"),
            rtol=number(least=0, below=1, good=(1e-6, 1e-3), none=True),
        ),
        "proxies.TreeLeaves": entry(
            proxies.TreeLeaves,
            BY_NAME,
            run=lambda cls, a, w: call(cls, a, w).fit_transform(a["X"], w.code[: (*np.shape(a["X"]), 0)[0]]),
            X=matrix(of=lambda world: world.X[:10], without="3-d 1e300 one_huge_value"),
            forest=choice(
                None, RandomTreesEmbedding(3), ExtraTreesClassifier(3), GradientBoostingClassifier(n_estimators=2)
            ),
            n_components=integer(good=(1, 3, 64)),
        ),
        "suspects": entry(
            bilevel.suspects,
            BY_NAME,
            check=_check_suspects,
            problem=choice(bilevel.Logistic(1.0), bilevel.LeastSquares(), names="problem|Problem"),
            X=matrix(True),
            y=labels(False, True, True),
            rule=choice("loss", "influence"),
            n_folds=integer(2, lambda world: world.n, good=(2, 3)),
            adjust=_few_of_a_class,
        ),
        "proxies.kernel_matrix": entry(
            proxies.kernel_matrix,
            BY_NAME,
            run=_matrix_of,
            X=made(_few_rows),
            Y=made(_few_rows),
            kernel=choice(proxies.RBF(0.1), proxies.Linear(), names="kernel"),
        ),
        "Network": entry(
            bilevel.Network,
            BY_NAME,
            run=_network,
            module=made(_module),
            loss=same(None),
            most_rows=12,
            train=choice(None, bilevel.TrainConfig(n_steps=2), names="train"),
            curvature=choice("gauss-newton", "hessian", names="curvature"),
            curvature_batch_size=integer(good=(4, 512)),
            batch_size=integer(good=(4, 1024)),
            device=same(None),
            checkpoint=same(None),
            random_state=same(0, 1),
        ),
    }
    return {f"handful.bilevel.{name}": row for name, row in rows.items()}


def _module(world):
    import torch

    torch.manual_seed(0)
    return torch.nn.Linear(2, 2)


def _network(cls, arguments, world):
    from handful.bilevel import TrainConfig

    arguments.setdefault("train", TrainConfig(n_steps=2))
    if arguments["train"] is None:
        arguments["train"] = TrainConfig(n_steps=2)
    rows, y = np.tile(world.X[:, :2], (3, 2))[:, :2].astype(np.float32), np.tile(world.code, 3)
    problem = call(cls, arguments, world)
    options = dict(rule="linear", strategy=bilevel.Forward(2, n_start=2), ihvp=bilevel.ConjugateGradients(5))
    return BilevelCoreset(problem, size=4, **options, random_state=0).fit(rows, y)


def _check_suspects(result, arguments, world):
    assert sorted(result.indices) == list(range(world.n))
    assert (np.diff(result.scores[result.indices]) <= 0).all()


def _few_of_a_class(world):
    """Every fold must hold each class; least squares does not take words."""
    y, folds = world.cases["y"], world.cases.get("n_folds")
    few = world.n < 2 * (5 if folds is None else 3)
    if few or y.value is not world.code:
        names = "|".join(filter(None, [y.names, "class|n_folds|numbers|convert"]))
        world.cases["y"] = y._replace(verdict=max(y.verdict, MAY_FAIL), names=names)


def _rows_of_weights(world):
    X, w = world.cases["X"], world.cases["weights"]
    if np.shape(X.value)[:1] != (world.n,) and w.verdict == 0:
        world.cases["weights"] = w._replace(verdict=MAY_FAIL)
