"""Adaptive sampling: draws, updates and set-up against numpy's uniform draw, k-means steps, k-DPPs
against dppy.

The yardstick of draws and updates is `Generator.integers` for a batch of 100 out of 150,000: one
uniform draw is the least that a sampler can cost. dppy is needed for the last ratio: pip install
dppy.
"""

import time

import numpy as np
from _harness import Bench
from dppy.finite_dpps import FiniteDPP
from handful.clustering.minibatch import kmeans_step
from handful.sampling import (
    KDPP,
    BanditSampler,
    MixtureSampler,
    UniformSampler,
    distance_components,
)
from handful_papers.vrm.fig04_prioritised_replay import ARMS, arm_rows
from handful_papers.vrm.regression import make_regression

N = 150_000
K = 10
BATCH = 100


def loop(function, times):
    def run():
        for _ in range(times):
            function()

    return run


def draws(bench, X, components):
    rng = np.random.default_rng(0)
    losses = [rng.gamma(1.0, size=BATCH) for _ in range(64)]
    samplers = {
        "VRM": MixtureSampler(components, batch_size=BATCH, random_state=0),
        "fixed mixture": MixtureSampler(
            components, mixture_weights="equal", batch_size=BATCH, random_state=0
        ),
        "VRB": BanditSampler(N, batch_size=BATCH, random_state=0),
    }
    turn = iter(range(10**9))

    def both(sampler):
        def run():
            sampler.sample()
            sampler.update(losses[next(turn) % 64])

        return run

    candidates = {f"{name}: draw": loop(s.sample, 2000) for name, s in samplers.items()}
    candidates |= {
        f"{name}: draw, update": loop(both(s), 2000)
        for name, s in samplers.items()
        if name[:2] == "VR"
    }
    ratios = bench.time(
        f"n = {N:,}, k = {K}, batch {BATCH}",
        candidates,
        ("2,000 x Generator.integers", loop(lambda: rng.integers(0, N, BATCH), 2000)),
        bars={"VRM: draw": 3},
        repeats=15,
    )
    for name in ("VRM", "VRB"):
        update = ratios[f"{name}: draw, update"] - ratios[f"{name}: draw"]
        unit = "x the uniform draw of the batch"
        bench.value(
            "the difference of the two",
            f"{name}: update",
            update,
            unit=unit,
            bar=2 if name == "VRM" else None,
        )


def set_up(bench, X, components):
    def make(components):
        return MixtureSampler(components, batch_size=BATCH, random_state=0)

    seconds = {"tables": [], "tables and components": []}
    for _ in range(5):
        begin = time.perf_counter()
        make(components)
        seconds["tables"].append(time.perf_counter() - begin)
        begin = time.perf_counter()
        make(distance_components(X, K - 1, random_state=np.random.default_rng(0)))
        seconds["tables and components"].append(time.perf_counter() - begin)
    for name, found in seconds.items():
        bench.value(
            f"set-up, n = {N:,}, d = {X.shape[1]}", name, np.median(found), unit="s", bar=0.5
        )


def kmeans(bench, X, components):
    samplers = {
        "uniform": UniformSampler(N, batch_size=BATCH, random_state=0),
        "VRM": MixtureSampler(components, batch_size=BATCH, random_state=0),
        "VRB": BanditSampler(N, batch_size=BATCH, random_state=0),
    }

    def steps(sampler):
        centres = X[:100].copy()
        counts = np.zeros(100)

        def run():
            for _ in range(500):
                indices, weights = sampler.sample()
                sampler.update(kmeans_step(X[indices], weights, centres, counts))

        return run

    runs = {name: steps(s) for name, s in samplers.items()}
    uniform = runs.pop("uniform")
    case = f"k-means steps, d = {X.shape[1]}, 100 centres"
    bench.time(case, runs, ("500 uniform steps", uniform), bars={"VRM": 1.15}, repeats=15)


def kdpp(bench):
    X, _ = make_regression(1000, 10, rng=np.random.default_rng(0))
    ours = KDPP(X, 5, shift=1.0, random_state=0)
    theirs = FiniteDPP("likelihood", L=X @ X.T + np.eye(1000))
    # the eigendecomposition, once
    theirs.sample_exact_k_dpp(5, random_state=0)
    # dppy takes no Generator
    state = np.random.RandomState(0)
    bench.time(
        "5-DPP of XX' + I, n = 1,000, d = 10",
        {"ours": loop(ours.sample, 200)},
        ("200 x dppy exact", loop(lambda: theirs.sample_exact_k_dpp(5, random_state=state), 200)),
        bars={"ours": 0.1},
        repeats=9,
    )


def figure_4(bench):
    # compiles
    arm_rows(ARMS[0], 0, n_episodes=5)
    runs = [(arm, seed) for arm in ARMS for seed in range(10)]
    # a long run, and its neighbours must not count
    begin = time.process_time()
    for arm, seed in runs:
        arm_rows(arm, seed, n_episodes=200)
    minutes = (time.process_time() - begin) / 60
    bench.value(
        f"Figure 4, {len(runs)} runs, 200 episodes",
        "one thread",
        minutes,
        unit="minutes of one core",
        bar=10,
    )


def main():
    bench = Bench("sampling", "Adaptive sampling: draws, updates, set-up")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 74)) * rng.gamma(2.0, size=(N, 1))
    components = distance_components(X, K - 1, random_state=rng)
    draws(bench, X, components)
    set_up(bench, X, components)
    kmeans(bench, X, components)
    kdpp(bench)
    figure_4(bench)
    bench.write(n=N, k=K, batch=BATCH)


if __name__ == "__main__":
    main()
