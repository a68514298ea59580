"""`handful warmup`: fits every estimator on small data, so that numba compiles it and keeps the result on disk."""

import warnings

import numpy as np
from tqdm import tqdm

from handful import baselines, clustering, sampling, sensitivity, streaming, svm
from handful.dictionary import L1, L2, MeasurementSelector


def _fits(dtype):
    # name -> function without arguments
    rng = np.random.default_rng(0)
    X = np.ascontiguousarray(rng.normal(size=(300, 6)), dtype=dtype)
    y = X[:, 0] + rng.normal(size=300) > 0
    weights = rng.random(300)
    large = np.zeros((1 << 16, 65), dtype=dtype)  # from 2^22 entries on, passes run in several threads
    large[:300, :6] = X
    many = rng.normal(size=(3000, 6)).astype(dtype)  # more rows and clusters than numpy handles without a kernel
    kept = many.view()
    kept.flags.writeable = False  # of a memory map: another signature to numba

    def fit(selector, *targets, data=X, **options):
        return lambda: selector.set_params(size=20, random_state=0).fit(data, *targets, **options)

    def sampler(made):
        def draw_and_learn():
            one = made()
            indices, _ = one.sample()
            one.update(np.ones(len(indices)))

        return draw_and_learn

    components = sampling.distance_components(X, 3, random_state=rng)
    svms = [svm.LinearSVM(), svm.LinearSVM(l2=1e-3)]
    return {
        "VCGMM": lambda: clustering.VCGMM(70, random_state=0).fit(many).predict(many, greedy=True),
        "VCGMM on rows that are read-only": lambda: clustering.VCGMM(70, coreset_size=2000, random_state=0).fit(kept),
        "VCGMM on a coreset": lambda: clustering.VCGMM(8, coreset_size=100, init="afkmc2", random_state=0).fit(
            X, sample_weight=weights
        ),
        "mini-batch k-means": lambda: [
            clustering.MiniBatchKMeans(8, n_steps=3, random_state=0).fit(data) for data in (X, kept)
        ],
        "SVM coreset": fit(sensitivity.SVMCoreset(), y),
        "SVM coreset, large data": fit(sensitivity.SVMCoreset(), np.arange(1 << 16) % 2, data=large),
        "linear SVM": lambda: [model.fit(X, y) for model in svms],
        "lightweight coreset": fit(sensitivity.LightweightCoreset()),
        "logistic sensitivities": fit(sensitivity.LogisticSensitivity(), y),
        "k-means++ and k-centre": lambda: [fit(baselines.KMeansPlusPlus())(), fit(baselines.KCenter())()],
        "mixture sampler": sampler(lambda: sampling.MixtureSampler(components, batch_size=9, random_state=0)),
        "bandit sampler": sampler(lambda: sampling.BanditSampler(300, batch_size=9, random_state=0)),
        "determinantal processes": lambda: sampling.KDPP(np.float64(X), 3, shift=1.0, random_state=0).sample(),
        "reservoirs": lambda: [
            one(size=20, random_state=0).fit(X, y) for one in (streaming.Reservoir, streaming.ClassBalancedReservoir)
        ],
        "measurements": lambda: [
            MeasurementSelector(rng.normal(size=(12, 6)), penalty, size=3).fit(X[:20]) for penalty in (L1(), L2())
        ],
    }


def warm_up():
    """Compile everything that is not compiled yet, with a progress bar: minutes at most, once for each installation."""
    fits = [(name, fit) for dtype in (np.float64, np.float32) for name, fit in _fits(dtype).items()]
    with warnings.catch_warnings(), tqdm(fits, desc="compiling", unit="fit", disable=None) as bar:
        warnings.simplefilter("ignore")  # of fits on noise that stop early
        for name, fit in bar:
            bar.set_postfix_str(name)
            fit()
