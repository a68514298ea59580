"""What the fuzz has found: each call once gave NaN, a warning, an error of another kind, or a number made of noise."""

import warnings

import numpy as np
import pytest
import torch
from handful import (
    VCGMM,
    BilevelCoreset,
    CoresetEstimator,
    CoresetSampler,
    KCenter,
    LeastSquares,
    Logistic,
    UniformCoreset,
    WeightedFit,
    compare,
)
from handful.active.audio import mel_spectrogram, prepare
from handful.active.mixmatch import MixMatch
from handful.active.supervised import SupervisedNetwork
from handful.baselines import FRCL
from handful.bilevel import (
    ConjugateGradients,
    Exchange,
    GaussianMixture,
    NeumannSeries,
    OptimalDesign,
    ProxyCoreset,
    Regularised,
    TrainConfig,
    design_gradient,
    design_objective,
    suspects,
)
from handful.bilevel.proxies import CNTK, NTK, RBF, Linear, Nystrom, Polynomial, TreeLeaves
from handful.continual.vcl import VCL
from handful.data import Dataset, split, zero_one
from handful.dictionary.generative import Generative, train_vae
from handful.linalg import project_simplex
from handful.resampling import WeightedLabels
from handful.sampling import FullInformation, MixtureSampler, UniformSampler, distance_components
from handful.sampling.full_information import mixture_cost, mixture_cost_gradient
from handful.sampling.sgd import linear_sgd
from handful.sensitivity.svm_bounds import printed_bound, tight_bound
from handful.streaming import ClassBalancedReservoir
from handful.svm import hinge_price, svm_objective
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4))
Y = np.arange(40) % 2
P = np.full((2, 40), 1 / 40)
ONE_BY_ONE = UniformSampler(40, batch_size=1)
SIGNS = 2.0 * Y - 1
SOUND = RNG.uniform(-0.5, 0.5, size=(2, 8000))
TREE = DecisionTreeClassifier(max_depth=1)
DATA = Dataset("made", X, Y, None, None, tuple("abcd"), "", "", "", "", "", of="made", published_rows=40)


def fit_with(**options):
    return lambda: BilevelCoreset(size=5, random_state=0, **options).fit(X, Y)


def undefined_gram(A, B):
    """Fine for the landmarks, not for a row far away."""
    K = RBF(0.1)(A, B)
    K[np.abs(A).max(axis=1) > 1e6] = np.inf
    return K


def two_codes_one_measurement():
    """Both codes move the one measurement alike, so that only the penalty could tell them apart."""
    generator = torch.nn.Linear(2, 4)
    torch.nn.init.ones_(generator.weight)
    return Generative(generator, latent=2, l2=1e-30).recover(np.eye(4)[:1], np.zeros((3, 1)))


def unlike_the_landmarks():
    return Nystrom(undefined_gram, n_landmarks=5, random_state=0).fit(X).transform(1e7 * X)


REFUSED = {
    # kernels and features
    "polynomial of large rows": (lambda: Polynomial(3)(1e60 * X), "overflows float64 on X .* scale the data"),
    "polynomial of float32": (lambda: Polynomial(3).diag((1e8 * X).astype(np.float32)), "overflows float32 on X"),
    "linear kernel of 1e300": (lambda: Linear()(1e300 * X), "X must not have entries larger than 1e\\+77"),
    "RBF of 1e300": (lambda: RBF()(1e300 * X), "X must not have entries larger than 1e\\+77"),
    "NTK of float32": (lambda: NTK(4, w_std=1e30)(X.astype(np.float32)), "w_std=1e\\+30.* overflows float32"),
    "CNTK of 1e300": (lambda: CNTK((3,))(1e300 * X), "X must not have entries larger"),
    "w_std of 1e300": (lambda: NTK(w_std=1e300)(X), "w_std of NTK must be 0 or 1e-50 to 1e\\+50 in magnitude"),
    "rtol of a list": (lambda: Nystrom(RBF(), rtol=[0.5]).fit(X), "rtol must be a finite number"),
    "rtol of infinity": (lambda: Nystrom(RBF(), rtol=np.inf).fit(X), "rtol must be a finite number .* less than 1"),
    "no landmark but zero": (lambda: Nystrom(Linear()).fit(0 * X), "has no features: scale X"),
    "a kernel of one's own": (unlike_the_landmarks, "gave values that are not finite for rows of X"),
    # selectors, strategies, solvers
    "a proxy's selector": (lambda: ProxyCoreset(5).fit(X, Y), "selector must choose rows"),
    "a proxy that is none": (lambda: ProxyCoreset(KCenter(), 5, size=3).fit(X, Y), "proxy must be a transformer"),
    "steps of None": (fit_with(strategy=Exchange(max_iter=None)), "max_iter of Exchange must be an integer"),
    "iterations of None": (fit_with(strategy=Regularised(max_iter=None)), "max_iter of Regularised must be an integer"),
    "a tolerance of 1e300": (fit_with(ihvp=ConjugateGradients(tol=1e300)), "tol of ConjugateGradients .* at most 1"),
    "damping of 1e300": (fit_with(ihvp=NeumannSeries(damping=1e300)), "damping of NeumannSeries must be 0 or 1e-50"),
    "targets of 1e300": (lambda: BilevelCoreset(LeastSquares(), size=5).fit(X, 1e300 * Y), "y must not have entries"),
    "noise of 1e-300": (lambda: FRCL(5, noise=1e-300).fit(X), "noise must be a finite number of at least 1e-10"),
    "a singular mixture": (
        lambda: BilevelCoreset(GaussianMixture(2, prior_variance=1e-45), size=5).fit(np.repeat(X[:2], 9, axis=0)),
        "singular to rounding, with prior=0.001 and prior_variance=1e-45",
    ),
    "a design of too few": (
        lambda: design_objective(X[:2], [1, 1], prior_precision=0),
        "do not determine all parameters",
    ),
    "its gradient": (lambda: design_gradient(X[:2], [1, 1], prior_precision=0), "do not determine all parameters"),
    "a design without prior": (
        lambda: OptimalDesign(size=3, prior_precision=1e-160).fit(X),
        "prior_precision must",
    ),
    "a learning rate of 1e45": (lambda: TrainConfig(learning_rate=1e45).check(), "learning_rate of TrainConfig"),
    # estimators around selectors
    "an infinite row that is not drawn": (
        lambda: CoresetEstimator(UniformCoreset(2, random_state=0), TREE).fit(np.where(X[7, 0] == X, np.inf, X), Y),
        "infinity",
    ),
    "a sampler without y": (lambda: CoresetSampler(KCenter(2)).fit_resample(X, None), "got y=None"),
    "weights dropped": (
        lambda: WeightedFit(KNeighborsClassifier()).fit(X, WeightedLabels(Y, np.ones(40))),
        "takes no sample_weight",
    ),
    "no estimator": (lambda: compare(KCenter(), None, X, Y), "estimator must have fit"),
    "no labels": (lambda: compare(KCenter(), TREE, X, None), "y is None"),
    "rows without labels": (lambda: compare(KCenter(), TREE, X, Y[:-1]), "inconsistent numbers of samples"),
    "no seeds": (lambda: compare(KCenter(), TREE, X, Y, seeds=[]), "seeds must be a list of at least one"),
    "seeds below 0": (lambda: compare(KCenter(), TREE, X, Y, seeds=[-1]), "seeds must be an integer of at least 0"),
    "sizes that are one": (lambda: compare(KCenter(), TREE, X, Y, sizes=5), "sizes must be a list"),
    # sampling
    "smoothing of 1e-30": (
        lambda: distance_components(X, 2, rng=np.random.default_rng(0), smoothing=1e-30),
        "smoothing must be a finite number of at least 1e-12",
    ),
    "beta of 1e-30": (
        lambda: MixtureSampler(P, batch_size=1, beta=1e-30),
        "beta must be .* at least 1e-15",
    ),
    "a scale of 1e-45": (lambda: FullInformation(P, scale=1e-45).update(1e60 * (1 + Y)), "losses .* raise scale"),
    "a cost of no chance": (lambda: mixture_cost([0, 0], P, Y + 1.0), "w gives a point the probability 0"),
    "its slope": (lambda: mixture_cost_gradient([0, 0], P, Y + 1.0), "w gives a point the probability 0"),
    "a power of 1e30": (
        lambda: linear_sgd(
            X, SIGNS, UniformSampler(40, batch_size=1), learning_rate=0.1, n_steps=3, power=1e30, loss="hinge"
        ),
        "power must be a finite number of at least 0 and at most 10",
    ),
    "a projection of 1e300": (lambda: project_simplex([1e300, 0.0]), "w must not have entries larger"),
    # SVMs
    "a price of l2 = 1e-45": (lambda: hinge_price(1e-45, np.float32(1e-300)), "total_weight must be"),
    "coefficients of 1e300": (lambda: svm_objective(X, SIGNS, np.full(5, 1e300)), "w must not have entries larger"),
    # torch
    "a weight of the divergence": (lambda: VCL(kl_weight=1e160).add_task(X, Y), "kl_weight must be"),
    "complex rows": (lambda: VCL().add_task(X + 1j, Y), "Complex data not supported"),
    "a temperature of 1e-30": (lambda: MixMatch(temperature=1e-30).fit(X[:8, :, None], Y[:8]), "temperature must be"),
    "weight decay of 1e300": (
        lambda: SupervisedNetwork(weight_decay=1e300).fit(RNG.random((8, 8, 8)), Y[:8]),
        "weight_decay must be",
    ),
    "a rate of 1e45": (
        lambda: train_vae(RNG.random((9, 4)), rng=torch.Generator(), learning_rate=1e45),
        "learning_rate must be",
    ),
    "codes that nothing determines": (two_codes_one_measurement, "codes are not determined at l2=1e-30"),
    # data, sounds, streams
    "a share of None": (lambda: split(DATA, test_size=None), "test_size must be a finite number"),
    "labels of infinity": (lambda: zero_one(np.array([np.inf, 0.0])), "y must be finite, got inf at row 0"),
    "an object as centres": (lambda: VCGMM(2, init=object()).fit(X), "init: "),
    "no recordings": (lambda: prepare(None, 8000), "recordings must be a list"),
    "1e300 seconds": (lambda: prepare(SOUND, 8000, seconds=1e300), "seconds must be a finite number"),
    "less than a sample": (lambda: prepare(SOUND, 8000, seconds=1e-9), "seconds must be at least one sample"),
    "a window of no sample": (lambda: mel_spectrogram(SOUND, 8000, window=1e-9), "window must be at least one sample"),
    "a span of 1e160": (lambda: mel_spectrogram(SOUND, 8000, span=1e160), "span must be a finite number"),
    "complex labels": (lambda: ClassBalancedReservoir(3).partial_fit(X, Y + 1j), "Complex data not supported: y"),
}


@pytest.mark.filterwarnings("error::RuntimeWarning", "ignore:invalid value encountered in cast")
@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_by_name(name):
    call, message = REFUSED[name]
    with pytest.raises((ValueError, TypeError), match=message):
        call()


WORKS = {
    "leaves of equal rows": lambda: TreeLeaves(random_state=0).fit_transform(np.repeat(X[:1], 9, axis=0)),
    "a share in float32": lambda: split(DATA, test_size=np.float32(0.5), random_state=0).X_test,
    "an integer number of test rows": lambda: split(DATA, test_size=7, random_state=0).X_test,
    "regularised weights of rows in pairs": lambda: fit_with(strategy=Regularised(threshold=0.0))().weights_,
    "a row of which the model is sure": lambda: suspects(Logistic(1.0), 1e8 * X, Y, random_state=0).scores,
    "bounds of far prices": lambda: [
        bound(np.ones(3), np.ones(3), np.full(3, 2.0), 6.0, price=1e200, opt=1e-200)
        for bound in (tight_bound, printed_bound)
    ],
    "a tiny price of float32": lambda: np.array(hinge_price(1e-45, np.float32(1.0))),
    "losses of 1e100": lambda: FullInformation(P).update(np.full(40, 1e100)) / 1e200,
    "an estimator that is not scikit-learn's": lambda: compare(
        KCenter(), Bare(), X, Y, sizes=[9], seeds=np.int64(1), verbose=False
    ).frame["score"],
}


class Bare:
    """Fits and scores, and knows nothing of tags."""

    def fit(self, X, y, sample_weight=None):
        self.model = LogisticRegression().fit(X, y, sample_weight)
        return self

    def score(self, X, y):
        return self.model.score(X, y)


@pytest.mark.parametrize("name", WORKS)
def test_it_works_without_a_warning(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = WORKS[name]()
    assert np.isfinite(found).all()
    assert np.size(found)
