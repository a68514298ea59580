"""Rows of the table: clusterings, SVMs and the sensitivities behind their coresets."""

import numpy as np
from handful import LinearSVM, clustering, svm
from handful.sensitivity import lightweight_coreset, svm_bounds

from fuzz.kinds import (
    FAILS,
    MAY_FAIL,
    WORKS,
    Case,
    boolean,
    choice,
    generator,
    integer,
    labels,
    matrix,
    number,
    same,
    seed,
    vector,
    weights,
)
from fuzz.kinds import size as sizes
from fuzz.throw import call, entry

BY_NAME = {
    "random_state": seed(),
    "rng": generator,
    "verbose": same(False),
    "n_clusters": integer(1, lambda world: world.n, good=(1, 2)),
    "n_neighbors": integer(good=(1, 3, 5)),
    "covariance": choice("shared", "isotropic"),
    "assignment": choice("soft", "hard", "hardened"),
    "tol": number(above=0, good=(1e-4, 1e-6)),
    "max_iter": integer(good=(20, 200)),
    "warm_start": boolean(),
    "compute_labels": boolean(),
    "batch_size": integer(good=(1, 10)),
    "n_steps": integer(good=(1, 20)),
    "l2": number(above=0, good=(0.01, 1.0), none=True),
    "price": number(above=0, good=(0.5, 2.0)),
    "opt": number(above=0, good=(0.5, 2.0)),
    "kappa": number(least=0, good=(4 / 9, 2 / 3)),
    "chain_length": integer(good=(1, 2)),
    "n_random": integer(0, good=(0, 1)),
    "n_warmup": integer(0, good=(0, 2)),
    "start": choice("auto", "random", "nearest"),
    "moves": choice("split", "empty", None),
    "grow": boolean(),
    "stopping": choice("per point", "relative"),
}


def _clusters(cls, arguments, world):
    model = call(cls, arguments, world).fit(arguments["X"], sample_weight=arguments.get("sample_weight"))
    return model, model.predict(arguments["X"]), model.score(arguments["X"]), model.transform(arguments["X"])


def _check_clusters(result, arguments, world):
    model, predicted, _, _ = result
    assert 0 <= predicted.min() <= predicted.max() < model.n_clusters
    assert model.cluster_centers_.shape[0] == model.n_clusters


def _options(name):
    def run(cls, arguments, world):
        options = {name: call(cls, arguments, world)}
        return clustering.VCGMM(2, random_state=0, **options).fit(world.X)

    return run


def _svm(cls, arguments, world):
    model = call(cls, arguments, world).fit(arguments["X"], arguments["y"], arguments.get("sample_weight"))
    assert np.all(np.asarray(model.lower_bound_) <= np.asarray(model.objective_) * (1 + 1e-6) + 1e-300)
    return model, model.decision_function(arguments["X"]), model.predict(arguments["X"])


def _signs(world, name, odd):
    y = 2.0 * world.code - 1
    if not odd:
        return Case(y)
    if world.rng.random() < 0.1:
        return Case(np.abs(y), MAY_FAIL, "class")
    if world.rng.random() < 0.4:
        return Case(world.pick([y.astype(int), y.tolist(), y.astype(np.float32)]))
    return Case(
        world.pick([world.code, y[:-1], np.where(y > 0, np.nan, -1), None, y.astype(str)]),
        FAILS,
        "y|label|class|samples|NaN|str",
    )


def _exact(function, arguments, world):
    value = function(
        arguments["X"],
        arguments["y"],
        arguments["index"],
        **{k: v for k, v in arguments.items() if k not in ("X", "y", "index")},
    )
    assert 0 <= value <= 1 + 1e-6
    return value


def _zero_weight(world):
    w, index = world.cases.get("sample_weight"), world.cases["index"]
    if w is not None and isinstance(index.value, (int, np.integer)) and index.verdict == WORKS:
        if np.shape(w.value) == (world.n,) and 0 <= index.value < world.n and not isinstance(w.value, list):
            if w.value[int(index.value)] == 0:
                world.cases["sample_weight"] = w._replace(
                    verdict=max(w.verdict, MAY_FAIL), names=f"sample_weight|{w.names}"
                )


def _bound(function, arguments, world):
    value = function(
        arguments["distance"],
        arguments["u"],
        np.full(world.n, 2.0),
        5.0,
        **{k: v for k, v in arguments.items() if k in ("price", "opt", "kappa")},
    )
    assert (value <= 1).all()
    assert (value >= 0).all()
    return value


def _draw_rows(function, arguments, world):
    indices, weights = function(
        arguments["X"], arguments["size"], rng=arguments["rng"], sample_weight=arguments.get("sample_weight")
    )
    assert indices.shape == weights.shape
    assert (weights > 0).all()
    assert 0 <= indices.min() <= indices.max() < world.n
    return indices, weights


def _coefficients(world, name, odd):
    X = world.cases["X"].value
    d = X.shape[1] if hasattr(X, "shape") and len(X.shape) == 2 else len(X[0]) if isinstance(X, list) else world.d
    return vector(lambda w: np.ones(d + 1))(world, name, odd)


def _centers(world, name, odd):
    X = world.cases["X"].value
    d = X.shape[1] if hasattr(X, "shape") and len(X.shape) == 2 else len(X[0]) if isinstance(X, list) else world.d
    good = np.ones((2, max(d, 1)))
    if not odd:
        return Case(good)
    return Case(
        world.pick([good[0], good[:0], np.ones((2, d + 1)), good * np.nan, np.full(good.shape, "abc"), None]),
        FAILS,
        "centers|abc",
    )


def entries():
    positive = vector(lambda world: world.rng.random(world.n) + 0.1, least=0, names="distance|u")
    rows = {
        "handful.clustering.VCGMM": entry(
            clustering.VCGMM,
            BY_NAME,
            run=_clusters,
            check=_check_clusters,
            X=matrix(True, may="1e10 csr csr_array csc_float32 empty_csr"),  # sparse ones with a coreset_size only
            sample_weight=weights,
            coreset_size=integer(good=(5, 100), none=True),
            init=choice("greedy", "k-means++", "afkmc2", names="init"),
            algorithm=choice("fast", "paper"),
            tol=number(least=0, good=(1e-4, 1e-2)),
            adjust=_cluster_adjust,
        ),
        "handful.clustering.MiniBatchKMeans": entry(
            clustering.MiniBatchKMeans,
            BY_NAME,
            run=_clusters,
            check=_check_clusters,
            X=matrix(True, may="1e10"),
            sample_weight=weights,
            sampler=same(None),
            init=choice("k-means++", names="init"),
            adjust=_cluster_adjust,
        ),
        "handful.clustering.AFKMC2": entry(clustering.AFKMC2, BY_NAME, run=_options("init")),
        "handful.clustering.TruncatedEM": entry(clustering.TruncatedEM, BY_NAME, run=_options("algorithm")),
        "handful.clustering.quantization_error": entry(
            clustering.quantization_error,
            BY_NAME,
            X=matrix(may="float32 1e30_float32"),
            centers=_centers,
            sample_weight=weights,
        ),
        "handful.svm.LinearSVM": entry(
            LinearSVM,
            BY_NAME,
            run=_svm,
            class_weight=choice(None, "balanced"),
            X=matrix(True),
            y=labels(False),
            sample_weight=weights,
        ),
        "handful.svm.hinge_price": entry(svm.hinge_price, BY_NAME, total_weight=number(above=0, good=(1.0, 100.0))),
        "handful.svm.svm_objective": entry(
            svm.svm_objective, BY_NAME, X=matrix(True), y=_signs, w=_coefficients, sample_weight=weights
        ),
        "handful.sensitivity.lightweight_coreset": entry(
            lightweight_coreset,
            BY_NAME,
            run=_draw_rows,
            X=matrix(True),
            size=sizes(repeats=True),
            sample_weight=weights,
        ),
        "handful.sensitivity.svm_bounds.exact_sensitivity": entry(
            svm_bounds.exact_sensitivity,
            BY_NAME,
            run=_exact,
            adjust=_zero_weight,
            most_rows=12,
            X=matrix(may="big_offset big_offset_float32 uneven_scales"),
            y=_signs,
            index=integer(0, lambda w: w.n - 1, good=(0, 1)),
            sample_weight=weights,
            tol=number(above=0, good=(1e-9, 1e-6)),
            max_iter=integer(good=(20, 50)),
        ),
        "handful.sensitivity.svm_bounds.tight_bound": entry(
            svm_bounds.tight_bound,
            BY_NAME,
            run=_bound,
            distance=positive,
            u=positive,
            cluster_weight=None,
            total_weight=None,
        ),
        "handful.sensitivity.svm_bounds.printed_bound": entry(
            svm_bounds.printed_bound,
            BY_NAME,
            run=_bound,
            distance=positive,
            u=positive,
            cluster_weight=None,
            total_weight=None,
        ),
        "handful.sensitivity.svm_bounds.printed_bound_counterexample": entry(
            svm_bounds.printed_bound_counterexample, BY_NAME, distance=number(), light=number(), heavy=number()
        ),
    }
    return rows


def _cluster_adjust(world):
    coreset = world.cases.get("coreset_size")
    if coreset is not None and coreset.verdict == WORKS and not 3 < (coreset.value or 4) <= world.n:
        world.cases["coreset_size"] = coreset._replace(verdict=MAY_FAIL)
    if "n_clusters" not in world.cases:  # eight, which may be more than there are rows
        world.cases["n_clusters"] = Case(2)
    w, k = world.cases.get("sample_weight"), world.cases["n_clusters"]
    if (w is not None and "class" in w.names) or isinstance(getattr(w, "value", None), np.ndarray):
        world.cases["n_clusters"] = k._replace(verdict=max(k.verdict, MAY_FAIL), names=k.names or "n_clusters|size")
    if np.shape(world.cases["X"].value)[:1] != (world.n,):
        world.cases["n_clusters"] = k._replace(verdict=max(k.verdict, MAY_FAIL), names=k.names or "n_clusters|size")
