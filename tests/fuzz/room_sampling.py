"""Rows of the table: samplers, their components, and training on what they draw."""

import numpy as np
import torch
from handful import sampling
from handful.sampling import full_information, sgd
from handful.sampling.torch_sampler import AdaptiveBatchSampler, Weighted

from fuzz.kinds import (
    FAILS,
    MAY_FAIL,
    WORKS,
    Case,
    boolean,
    choice,
    generator,
    integer,
    made,
    matrix,
    number,
    same,
    seed,
    vector,
)
from fuzz.throw import call, entry

BY_NAME = {
    "random_state": seed(),
    "rng": generator,
    "beta": number(least=1e-15, good=(0.5, 10.0)),
    "gamma": number(least=0, most=1, good=(0.01, 0.2)),
    "eps": number(above=0, good=(1.0, 1000.0)),
    "scale": number(above=0, good=(1.0, 1e14), none=True),
    "uniform": boolean(),
    "shared_component": boolean(),
    "n_pgd_steps": integer(0, good=(0, 5)),
    "batch_size": integer(1, lambda world: world.n, good=(1, 2)),
    "k": integer(1, lambda world: world.n, good=(1, 2)),
    "n": integer(2, good=(5, 20)),
    "theta": number(above=0, most=1, good=(0.3, 1.0)),
    "regularisation": number(above=0, good=(1.0, 1e-3), none=True),
    "learn": boolean(),
    "leak": number(least=0, good=(1e-7, 0.5)),
    "smoothing": number(least=1e-12, most=1, good=(0.1, 1.0)),
}


def _distributions(world):
    p = world.rng.random((3, world.n)) + 0.01
    return p / p.sum(axis=1, keepdims=True)


def _probabilities(world, name, odd):
    p = _distributions(world)
    if not odd:
        return Case(p)
    bad, negative = p.copy(), p.copy()
    bad[0, 0] = world.pick([np.nan, np.inf])
    negative[0, :2] = -0.5, negative[0, :2].sum() + 0.5
    wrong = [
        2 * p,
        bad,
        negative,
        p[0],
        p[:0],
        p[:, :0],
        None,
        np.full(p.shape, "abc"),
        p + 1j,
        p[:, :, None],
        np.zeros_like(p),
    ]
    if world.rng.random() < 0.4:
        kinds = [p.tolist(), p.astype(np.float32), np.asfortranarray(p), p[::-1], np.full_like(p, 1 / world.n)]
        return Case(world.pick(kinds))
    return Case(world.pick(wrong), FAILS, "probabilit|component|[Cc]omplex|str")


def _mixture_weights(k):
    def kind(world, name, odd):
        uniform = world.cases.get("uniform", Case(True)).value
        w = np.full(k + bool(uniform), 1.0 / (k + bool(uniform)))
        if not odd:
            return Case(world.pick([None, w]))
        return Case(
            world.pick([w[:-1], -w, 2 * w, np.full_like(w, np.nan), "abc", w[:, None]]), FAILS, "mixture_weights|abc"
        )

    return kind


def _far_from_the_scale(world):
    value = world.cases["losses"].value
    if getattr(world.cases.get("scale"), "value", None) is not None and isinstance(value, float) and value > 1e20:
        case = world.cases["losses"]
        world.cases["losses"] = case._replace(verdict=max(case.verdict, MAY_FAIL), names=case.names or "losses")


def _last_is_uniform(world):
    p, w = world.cases["probabilities"].value, world.cases.get("mixture_weights")
    if w is not None and isinstance(p, np.ndarray) and p.shape == (3, world.n) and np.unique(p[-1]).size == 1:
        world.cases["mixture_weights"] = w._replace(verdict=max(w.verdict, MAY_FAIL), names="mixture_weights|abc")


def losses(shape=None, signed=False):
    """Feedback: one number a drawn point, or what `shape` says."""

    def kind(world, name, odd):
        v = world.rng.exponential(size=1) * world.pick([1.0, 1.0, 0.0, 1e-3, 1e3])
        if not odd:
            return Case(float(v[0]))
        if world.rng.random() < 0.3:
            return Case(world.pick([1e-300, 1e-160, 1e-30, 1e30, 1e100, 0.0]))
        wrong = [np.nan, np.inf, 1e300, 1e200, "abc", 1j, None] + ([] if signed else [-1.0])
        return Case(world.pick(wrong), FAILS, "loss|error|[Cc]omplex|abc|NoneType")

    return kind


def steps(cls, arguments, world):
    """A few rounds of drawing and learning."""
    sampler = call(cls, arguments, world)
    for _ in range(3):
        indices, weights = sampler.sample()
        value = arguments["losses"]
        value = value if isinstance(value, str) else np.full(1 if sampler.draws_sets else len(indices), value)
        sampler.update(value[0] if sampler.draws_sets and not isinstance(value, str) else value)
    indices, weights = sampler.sample()
    q = None if sampler.draws_sets else sampler.probabilities if hasattr(sampler, "probabilities") else None
    return indices, weights, q, getattr(sampler, "mixture_weights", None), sampler


def check_draws(result, arguments, world):
    indices, weights, q, w, sampler = result
    assert indices.shape == weights.shape == (sampler.batch_size,)
    assert 0 <= indices.min() <= indices.max() < sampler.n
    assert (weights > 0).all()
    for distribution in (q, w):
        if distribution is not None:
            assert (distribution >= 0).all()
            assert abs(distribution.sum() - 1) < 1e-5
    if q is not None:
        np.testing.assert_allclose(weights, 1 / (sampler.n * q[indices]), rtol=1e-4)


def _replay(cls, arguments, world):
    sampler = call(cls, arguments, world)
    sampler.add(arguments["count"])
    for _ in range(3):
        indices, _ = sampler.sample()
        value = arguments["losses"]
        sampler.update(value if isinstance(value, str) else np.full(len(indices), value))
    return *sampler.sample(), sampler.probabilities, sampler.mixture_weights, sampler


def _capacity(world):
    return world.cases["capacity"].value if world.cases["capacity"].verdict == WORKS else 10


def _full(cls, arguments, world):
    learner = call(cls, arguments, world)
    value = arguments["losses"]
    costs = [learner.update(value if isinstance(value, str) else np.full(learner.n, value)) for _ in range(3)]
    assert (learner.mixture_weights >= 0).all()
    assert abs(learner.mixture_weights.sum() - 1) < 1e-6
    return costs, learner.mixture_weights


def _sets(cls, arguments, world):
    process = call(cls, arguments, world)
    drawn = process.sample()
    return drawn, process.log_prob(drawn), process.log_prob(arguments["indices"])


def _check_sets(result, arguments, world):
    drawn, log_prob, _ = result
    assert len(np.unique(drawn)) == len(drawn) == arguments["k"]
    assert log_prob <= 1e-6


def _set(world, name, odd):
    k = world.cases["k"].value
    n = world.n if "X" in world.cases else 5
    k = int(k) if isinstance(k, (int, np.integer)) and 1 <= k <= n else 1
    good = world.rng.choice(n, min(k, n), replace=False)
    if not odd:
        return Case(good, MAY_FAIL if k > n else 0, "k|indices")
    return Case(
        world.pick([good - 10**4, good + 10**4, good + 0.5, good[:0], good[:, None], "abc"]), FAILS, "indices|abc"
    )


def _few(world, name, odd):
    # k of the determinantal process with shift 0 is bounded by the rank
    case = integer(1, lambda world: world.n, good=(1, 2))(world, name, odd)
    rank = min(world.n, world.d)
    if isinstance(case.value, (int, np.integer)) and case.verdict == 0 and case.value > rank:
        return Case(1)
    return case


def _dpp_adjust(world):
    shift = world.cases.get("shift", Case(0.0))
    X = world.cases["X"]
    if not (isinstance(shift.value, float) and shift.value > 0) and X.verdict == 0:
        world.cases["X"] = X._replace(verdict=MAY_FAIL, names="rank|entry of at least|k")
    elif X.verdict == 0:
        world.cases["X"] = X._replace(verdict=MAY_FAIL, names="entry of at least")
    if np.shape(X.value)[:1] != (world.n,):
        world.cases["indices"] = world.cases["indices"]._replace(verdict=max(1, world.cases["indices"].verdict))


def _components(world, name, odd):
    X = world.X[:, :3]
    good = [sampling.KDPP(X, 1), sampling.KDPP(X, 1, shift=1.0), sampling.UniformSubsets(world.n, 1)]
    if not odd:
        return Case(good)
    wrong = [[], [sampling.KDPP(X, 1), sampling.UniformSubsets(world.n + 1, 1)], [object()], None, 5, ["abc"]]
    return Case(world.pick(wrong), FAILS, "component")


def _mixture(world):
    p = _distributions(world)
    return sampling.MixtureSampler(p, batch_size=1, random_state=int(world.rng.integers(100)))


def _sgd(function, arguments, world):
    sampler = arguments["sampler"]
    return function(
        *(arguments[k] for k in ("X", "y")),
        sampler,
        **{k: v for k, v in arguments.items() if k not in ("X", "y", "sampler")},
    )


def _groups(world, name, odd):
    good = world.code
    if not odd:
        return Case(good)
    if world.rng.random() < 0.4:
        return Case(world.pick([good.tolist(), good.astype(str), good * 1.0, good > 0]))
    return Case(world.pick([np.where(good, np.nan, 1.0), [], None, good[:, None], 3.0]), FAILS, "labels")


def _check_components(result, arguments, world):
    assert (result >= 0).all()
    np.testing.assert_allclose(result.sum(axis=1), 1.0, rtol=1e-9)


def _weights_k(world):
    w = world.rng.random(3) + 0.1
    return w / w.sum()


def entries():
    room = "handful.sampling"
    rows = {
        "UniformSampler": entry(
            sampling.UniformSampler,
            BY_NAME,
            run=steps,
            check=check_draws,
            losses=losses(),
            n=same(5),
            batch_size=integer(1, 5, good=(1, 2)),
        ),
        "BanditSampler": entry(
            sampling.BanditSampler,
            BY_NAME,
            run=steps,
            check=check_draws,
            losses=losses(),
            n=integer(1, good=(5, 5)),
            batch_size=integer(1, 5, good=(1, 2)),
        ),
        "FixedMixture": entry(
            sampling.FixedMixture,
            BY_NAME,
            run=steps,
            check=check_draws,
            probabilities=_probabilities,
            mixture_weights=_mixture_weights(3),
            adjust=_last_is_uniform,
            uniform=same(True),
            losses=same(1.0),
        ),
        "MixtureSampler": entry(
            sampling.MixtureSampler,
            BY_NAME,
            run=steps,
            check=check_draws,
            probabilities=_probabilities,
            losses=losses(),
        ),
        "FullInformation": entry(
            sampling.FullInformation,
            BY_NAME,
            run=_full,
            probabilities=_probabilities,
            losses=losses(),
            adjust=_far_from_the_scale,
        ),
        "PrioritizedReplay": entry(
            sampling.PrioritizedReplay,
            BY_NAME,
            run=_replay,
            check=check_draws,
            capacity=integer(good=(10, 16)),
            components=choice(((0.5, 0.1),), ((0.1, 0.01), (0.9, 1.0)), names="component|str|float|number"),
            mixture_weights=same(None),
            losses=losses(signed=True),
            count=integer(1, _capacity, good=(5, 10)),
            batch_size=integer(1, _capacity),
        ),
        "SetMixture": entry(sampling.SetMixture, BY_NAME, run=steps, components=_components, losses=losses()),
        "KDPP": entry(
            sampling.KDPP,
            BY_NAME,
            run=_sets,
            check=_check_sets,
            adjust=_dpp_adjust,
            X=matrix(),
            k=_few,
            shift=number(least=0, good=(1.0, 1e-3)),
            indices=_set,
        ),
        "UniformSubsets": entry(
            sampling.UniformSubsets, BY_NAME, run=_sets, check=_check_sets, n=same(5), k=integer(1, 5), indices=_set
        ),
        "concentration": entry(sampling.concentration, BY_NAME, probabilities=_probabilities),
        "distance_components": entry(
            sampling.distance_components, BY_NAME, check=_check_components, X=matrix(), k=integer(1, lambda w: w.n)
        ),
        "group_components": entry(sampling.group_components, BY_NAME, check=_check_components, labels=_groups),
        "linear_sgd": entry(
            sgd.linear_sgd,
            BY_NAME,
            run=_sgd,
            X=matrix(may="1e10"),
            y=made(lambda w: 2.0 * w.code - 1),
            sampler=made(_mixture),
            loss=choice("hinge", "logistic", "squared"),
            learning_rate=number(above=0, good=(1e-3, 0.1)),
            n_steps=integer(good=(1, 5)),
            coef=same(None),
            power=number(least=0, most=10, good=(0.5, 1.0)),
            truncation=number(least=0, below=1, good=(0.0, 0.5)),
            record_at=same((), (1,)),
        ),
        "full_information.mixture_cost": entry(
            full_information.mixture_cost,
            BY_NAME,
            w=vector(_weights_k, least=0),
            probabilities=_probabilities,
            losses=vector(lambda w: w.rng.random(w.n), least=0),
        ),
        "full_information.mixture_cost_gradient": entry(
            full_information.mixture_cost_gradient,
            BY_NAME,
            w=vector(_weights_k, least=0),
            probabilities=_probabilities,
            losses=vector(lambda w: w.rng.random(w.n), least=0),
        ),
        "full_information.theory_settings": entry(
            full_information.theory_settings,
            BY_NAME,
            k=integer(good=(2, 10)),
            horizon=integer(2, good=(10, 10**6)),
            bound=number(above=0),
            c=number(above=0, none=True, good=(1.0, 5.0)),
        ),
        "torch_sampler.AdaptiveBatchSampler": entry(
            AdaptiveBatchSampler,
            BY_NAME,
            sampler=made(_mixture),
            n_batches=integer(good=(1, 3), none=True),
            run=lambda cls, a, w: [np.asarray(batch) for batch in _first(call(cls, a, w))],
        ),
        "torch_sampler.Weighted": entry(
            Weighted,
            BY_NAME,
            dataset=made(lambda w: torch.utils.data.TensorDataset(torch.as_tensor(w.X))),
            run=lambda cls, a, w: len(call(cls, a, w)),
        ),
    }
    return {f"{room}.{name}": row for name, row in rows.items()}


def _first(batches, most=3):
    for i, batch in enumerate(batches):
        if i == most:
            return
        yield [index[0] if isinstance(index, tuple) else index for index in batch]
