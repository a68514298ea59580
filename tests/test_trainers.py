"""How trainers take weights: what is said of each, against what its own `fit` does."""

import warnings
from copy import deepcopy

import numpy as np
import pytest
from handful import (
    AnyEstimatorCoreset,
    CoresetEstimator,
    LightweightCoreset,
    LinearSVM,
    compare,
    suspects,
)
from handful.checks import MAX_SEED
from handful.proxies import RBF, Nystrom
from handful.trainers import weighted_fit, why_unweighted
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.experimental import enable_halving_search_cv
from sklearn.feature_selection import RFE, RFECV
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    LogisticRegression,
    Perceptron,
    RANSACRegressor,
    Ridge,
    RidgeClassifier,
)
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    HalvingGridSearchCV,
    RandomizedSearchCV,
    StratifiedKFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import (
    ClassifierChain,
    MultiOutputClassifier,
    MultiOutputRegressor,
    RegressorChain,
)
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.tree import DecisionTreeClassifier

# importing it adds the halving searches
assert enable_halving_search_cv
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
y = (X[:, 0] + RNG.normal(size=300) > 1).astype(int)
TARGET = X[:, 0] ** 2 + X[:, 1] + 0.1 * RNG.normal(size=300)
WEIGHTS = 5 * RNG.random(300)


class Wrapper(ClassifierMixin, BaseEstimator):
    """Somebody's wrapper, which passes on whatever it gets."""

    def __init__(self, model):
        self.model = model

    def fit(self, X, y, **fit_params):
        self.model_ = clone(self.model).fit(X, y, **fit_params)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict(X)


class Duck:
    """A classifier that inherits nothing and passes on what it gets."""

    def __init__(self, model):
        self.model = model

    def fit(self, X, y, **fit_params):
        self.model.fit(X, y, **fit_params)
        return self

    def predict(self, X):
        return self.model.predict(X)


INNER = {
    "logistic": LogisticRegression(),
    "neighbours": KNeighborsClassifier(),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
    "pipeline of neighbours": make_pipeline(StandardScaler(), KNeighborsClassifier()),
    "search": GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
    "search of a pipeline": GridSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression()), {}, cv=2
    ),
    "search of neighbours": GridSearchCV(KNeighborsClassifier(), {}, cv=2),
    "tree": DecisionTreeClassifier(max_depth=3, random_state=0),
}
WRAPPED = {
    "grid search": lambda one: GridSearchCV(one, {}, cv=2),
    "random search": lambda one: RandomizedSearchCV(one, {}, n_iter=1, cv=2, random_state=0),
    "halving": lambda one: HalvingGridSearchCV(one, {}, cv=2, random_state=0),
    "voting": lambda one: VotingClassifier(
        [("a", one), ("b", DecisionTreeClassifier()), ("c", "drop")]
    ),
    "stacking": lambda one: StackingClassifier(
        [("a", one), ("b", DecisionTreeClassifier(random_state=0))]
    ),
    "stacked last": lambda one: StackingClassifier([("a", LogisticRegression())], one),
    "elimination": lambda one: RFE(
        one, importance_getter=lambda fitted: np.arange(fitted.n_features_in_)
    ),
    "elimination CV": lambda one: RFECV(
        one, importance_getter=lambda fitted: np.arange(fitted.n_features_in_)
    ),
    "calibrated": lambda one: CalibratedClassifierCV(one, cv=2),
    "one against the rest": OneVsRestClassifier,
    "one against one": OneVsOneClassifier,
    "codes": lambda one: OutputCodeClassifier(one, random_state=0),
    "outputs": MultiOutputClassifier,
    "chain": ClassifierChain,
    "bagging": lambda one: BaggingClassifier(one, 3, random_state=0),
    "boosting": lambda one: AdaBoostClassifier(one, n_estimators=3, random_state=0),
    "self-training": SelfTrainingClassifier,
    "frozen": lambda one: FrozenEstimator(clone(one).fit(X, y)),
    "threshold": FixedThresholdClassifier,
    "tuned threshold": TunedThresholdClassifierCV,
    "last step": lambda one: make_pipeline(StandardScaler(), one),
    "somebody's": Wrapper,
    "duck": Duck,
}
REGRESSORS = {
    "targets": TransformedTargetRegressor(),
    "targets of ridge": TransformedTargetRegressor(Ridge(), func=np.arcsinh, inverse_func=np.sinh),
    "votes": VotingRegressor([("a", Ridge())]),
    "stack": StackingRegressor([("a", Ridge())]),
    "stack of fitted": StackingRegressor([("a", Ridge().fit(X, TARGET))], cv="prefit"),
    "boosted": AdaBoostRegressor(Ridge(), random_state=0),
    "consensus": RANSACRegressor(random_state=0),
    "chained": RegressorChain(Ridge()),
    "outputs": MultiOutputRegressor(Ridge()),
}
EVERY = {f"{way} of {name}": (WRAPPED[way], INNER[name]) for way in WRAPPED for name in INNER}
CASES = [pytest.param(wrap(inner), id=name) for name, (wrap, inner) in EVERY.items()]
CASES += [pytest.param(one, id=name) for name, one in REGRESSORS.items()]
CASES += [
    pytest.param(KNeighborsClassifier(), id="neighbours"),
    pytest.param(RandomForestClassifier(5), id="forest"),
]


def labels(trainer):
    """Targets of a kind that the trainer takes."""
    if isinstance(trainer, ClassifierChain | MultiOutputClassifier):
        return np.column_stack([y, 1 - y])
    if isinstance(trainer, RegressorChain | MultiOutputRegressor):
        return np.column_stack([TARGET, -TARGET])
    return TARGET if not isinstance(trainer, Duck) and is_regressor(trainer) else y


def accepts(trainer, target, keyword):
    """Whether the trainer's own `fit` takes the weights by that keyword, and says nothing of
    dropping them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            deepcopy(trainer).fit(X, target, **{keyword: WEIGHTS})
        except (TypeError, ValueError, KeyError):
            return False
    return True


@pytest.mark.parametrize("trainer", CASES)
def test_the_keyword_is_one_that_the_trainers_own_fit_takes(trainer):
    keyword = weighted_fit(trainer).keyword
    known = ["sample_weight", "logisticregression__sample_weight"]
    prefixes = ["gridsearchcv", "decisiontreeclassifier", "pipeline", "kneighborsclassifier"]
    known += [f"{prefix}__{name}" for prefix in prefixes for name in known]
    target = labels(trainer)
    if isinstance(trainer, FrozenEstimator):
        # nothing is trained: it takes anything
        assert keyword == weighted_fit(trainer.estimator).keyword
        return
    taken = [one for one in known if accepts(trainer, target, one)]
    assert (keyword in taken) if taken else (keyword is None)


# --- where trainers are trained: as their own `fit` would


SERVED = {
    name: wrap(inner)
    for name, (wrap, inner) in EVERY.items()
    if weighted_fit(wrap(inner)).keyword is not None
    and not isinstance(wrap(inner), Duck | MultiOutputClassifier | FrozenEstimator)
}
SERVED |= {
    name: one for name, one in REGRESSORS.items() if labels(one).ndim == 1 and "fitted" not in name
}


def seeded(trainer):
    """The trainer with every random_state that is None at 0."""
    trainer = clone(trainer)
    unset = [
        name
        for name, value in trainer.get_params().items()
        if name.endswith("random_state") and value is None
    ]
    return trainer.set_params(**dict.fromkeys(unset, 0))


# of calibration, whose weights may serve for that alone
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", SERVED)
def test_a_coreset_estimator_predicts_what_the_trainers_own_weighted_fit_does(name):
    trainer = seeded(SERVED[name])
    target = labels(trainer)
    few = CoresetEstimator(LightweightCoreset(150, random_state=0), trainer).fit(
        X, target, sample_weight=WEIGHTS
    )
    X_small, y_small, weights = few.selector_.take(X, target)
    own = clone(trainer).fit(X_small, y_small, **{weighted_fit(trainer).keyword: weights})
    np.testing.assert_array_equal(few.predict(X), own.predict(X))
    assert np.ptp(weights) > 0


COMPARED = [
    "grid search of logistic",
    "voting of tree",
    "stacking of tree",
    "grid search of pipeline",
    "targets",
]


@pytest.mark.parametrize("name", COMPARED)
def test_compare_scores_what_the_trainers_own_weighted_fit_predicts(name):
    trainer = seeded(SERVED[name])
    target = labels(trainer)
    held_out = X[200:], target[200:]
    options = dict(test=held_out, sizes=[80], seeds=[3], controls=False, verbose=False)
    found = compare(LightweightCoreset(), trainer, X[:200], target[:200], **options).frame
    X_small, y_small, weights = (
        LightweightCoreset(80, random_state=3).fit(X[:200]).take(X[:200], target[:200])
    )
    own = clone(trainer).fit(X_small, y_small, **{weighted_fit(trainer).keyword: weights})
    assert found[found["method"] == "LightweightCoreset"]["score"].item() == own.score(*held_out)
    assert found["weighted"].all()


@pytest.mark.parametrize(
    "name", [*COMPARED[:4], "calibrated of logistic", "somebody's of logistic"]
)
def test_points_for_a_trainer_that_passes_weights_on_have_the_weights_of_the_classes(name):
    few = AnyEstimatorCoreset(SERVED[name], size=60, n_draws=3, n_exchanges=2, random_state=0).fit(
        X, y
    )
    of_class = few.weights_[y[few.indices_] == 1].sum()
    assert few.chosen_ in ("logistic", "linear") or of_class == pytest.approx(y.sum())
    # the trainer is asked: a search is not the problem of its candidates
    assert few.trials_


@pytest.mark.parametrize("wrap", [GridSearchCV, RandomizedSearchCV])
def test_a_search_over_a_pipeline_is_served_by_what_its_last_step_sees(wrap):
    far = X * [1, 1e4, 1, 1] + 100
    pipe = make_pipeline(StandardScaler(), KNeighborsClassifier())
    search = wrap(
        pipe,
        {"kneighborsclassifier__n_neighbors": [3]},
        cv=2,
        **({"n_iter": 1} if "R" in wrap.__name__ else {}),
    )
    options = dict(size=60, n_draws=2, n_exchanges=2, random_state=0)
    with pytest.warns(
        UserWarning, match="takes no sample_weight for its KNeighborsClassifier: all chosen rows"
    ):
        few = AnyEstimatorCoreset(search, **options).fit(far, y)
    scaled = AnyEstimatorCoreset(KNeighborsClassifier(3), **options).fit(
        StandardScaler().fit_transform(far), y
    )
    assert set(few.trials_) == set(scaled.trials_)


ROUTED = [
    "one against the rest",
    "one against one",
    "codes",
    "self-training",
    "threshold",
    "tuned threshold",
]


@pytest.mark.parametrize("way", ROUTED)
def test_what_passes_weights_on_by_routing_alone_says_so_and_is_served_once_it_is_enabled(way):
    trainer = seeded(WRAPPED[way](LogisticRegression()))
    selector = LightweightCoreset(150, random_state=0)
    with pytest.raises(
        ValueError,
        match=r"without metadata routing, sklearn.set_config.*set_fit_request.*of Logistic",
    ):
        CoresetEstimator(selector, trainer).fit(X, y)
    with pytest.warns(
        UserWarning, match=r"without metadata routing.*all chosen rows get equal weights"
    ):
        few = AnyEstimatorCoreset(trainer, size=60, n_draws=2, n_exchanges=0, random_state=0).fit(
            X, y
        )
    assert np.ptp(few.weights_) == 0
    with config_context(enable_metadata_routing=True):
        inner = (
            LogisticRegression()
            .set_fit_request(sample_weight=True)
            .set_score_request(sample_weight=True)
        )
        trainer = seeded(WRAPPED[way](inner))
        if way == "tuned threshold":
            trainer.set_params(
                scoring=make_scorer(accuracy_score).set_score_request(sample_weight=True)
            )
        few = CoresetEstimator(selector, trainer).fit(X, y)
        X_small, y_small, weights = few.selector_.take(X, y)
        own = clone(trainer).fit(X_small, y_small, sample_weight=weights)
        np.testing.assert_array_equal(few.predict(X), own.predict(X))
        with warnings.catch_warnings(record=True) as given:
            AnyEstimatorCoreset(trainer, size=60, n_draws=2, n_exchanges=0, random_state=0).fit(
                X, y
            )
        assert not any("takes no sample_weight" in str(warning.message) for warning in given)


@pytest.mark.parametrize(
    ("trainer", "reason"),
    [
        (KNeighborsClassifier(), "KNeighborsClassifier.fit takes no sample_weight"),
        (
            make_pipeline(StandardScaler(), KNeighborsClassifier()),
            "KNeighborsClassifier.fit takes no sample_weight",
        ),
        (
            VotingClassifier([("a", KNeighborsClassifier())]),
            "VotingClassifier.fit takes no .* for its KNeighbors",
        ),
        (
            VotingClassifier([("a", INNER["pipeline"])]),
            "VotingClassifier.fit takes no .* for its LogisticRegression",
        ),
        (
            INNER["search of neighbours"],
            "GridSearchCV.fit takes no sample_weight for its KNeighborsClassifier",
        ),
    ],
)
def test_what_takes_none_is_named(trainer, reason):
    with pytest.raises(ValueError, match=f"{reason}.*so it cannot train on a weighted coreset"):
        CoresetEstimator(LightweightCoreset(50), trainer).fit(X, y)
    with pytest.warns(UserWarning, match=f"{reason}.*: it trains on the chosen rows alone"):
        found = compare(
            LightweightCoreset(), trainer, X, y, sizes=[50], seeds=1, controls=False, verbose=False
        )
    assert not found.frame["weighted"].any()
    assert why_unweighted(trainer)


def test_a_seed_reaches_what_a_trainer_wraps():
    votes = VotingClassifier(
        [("a", RandomForestClassifier(5)), ("b", RandomForestClassifier(5))], voting="soft"
    )
    model = CoresetEstimator(LightweightCoreset(100), votes, random_state=0)
    first, again = (clone(model).fit(X, y).predict_proba(X) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    options = dict(sizes=[100], seeds=[0], scoring="neg_log_loss", controls=False, verbose=False)
    for trainer in (votes, make_pipeline(StandardScaler(), RandomForestClassifier(5))):
        scores = [
            compare(LightweightCoreset(), trainer, X, y, **options).frame["score"] for _ in range(2)
        ]
        np.testing.assert_array_equal(*scores)
    chosen = [
        AnyEstimatorCoreset(votes, size=40, n_draws=2, n_exchanges=0, random_state=0).fit(X, y)
        for _ in range(2)
    ]
    assert chosen[0].trials_ == chosen[1].trials_
    losses = [suspects(votes, X, y, random_state=0).scores_ for _ in range(2)]
    np.testing.assert_array_equal(*losses)


@pytest.mark.parametrize(
    "inner", [LogisticRegression(), DecisionTreeClassifier(max_depth=3, random_state=0)]
)
def test_features_are_ranked_by_what_the_trainer_learned_on_its_coreset(inner):
    few = CoresetEstimator(LightweightCoreset(150, random_state=0), inner)
    ranks = RFE(few, n_features_to_select=1).fit(X, y).ranking_
    # the column that y is made of
    assert ranks[0] == 1
    assert hasattr(few.fit(X, y), "coef_") == hasattr(few.estimator_, "coef_")


# --- classifiers that only predict


class Nearest(ClassifierMixin, BaseEstimator):
    """A classifier with nothing but `fit` and `predict`."""

    def fit(self, X, y):
        self.model_ = KNeighborsClassifier(1).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict(X)


HARD = VotingClassifier(
    [("a", LogisticRegression()), ("b", DecisionTreeClassifier(random_state=0))]
)
ONLY_PREDICT = [RidgeClassifier(), Perceptron(), NearestCentroid(), HARD, LinearSVM(), Nearest()]
WORDS = np.array(["few", "many"])[y]


@pytest.mark.filterwarnings("ignore:.*fit takes no sample_weight")
@pytest.mark.filterwarnings("ignore:.*choices have the same loss")
@pytest.mark.parametrize("trainer", ONLY_PREDICT)
def test_a_classifier_that_only_predicts_is_served(trainer):
    proxy = Nystrom(RBF(), n_landmarks=20) if isinstance(trainer, Nearest) else None
    few = AnyEstimatorCoreset(
        trainer, size=40, n_draws=2, n_exchanges=2, proxy=proxy, random_state=0
    ).fit(X, WORDS)
    assert 0 <= min(few.trials_.values()) <= 1
    found = suspects(trainer, X, WORDS, random_state=0)
    assert sorted(found.indices_) == list(range(300))
    scored = compare(
        LightweightCoreset(),
        trainer,
        X,
        WORDS,
        sizes=[80],
        seeds=1,
        scoring="accuracy",
        verbose=False,
    )
    assert scored.frame["error"].eq("").all()


def test_the_suspects_of_a_classifier_that_only_predicts_are_what_it_gets_wrong():
    folds = StratifiedKFold(
        5, shuffle=True, random_state=int(np.random.default_rng(0).integers(MAX_SEED))
    )
    wrong = cross_val_predict(Nearest(), X, WORDS, cv=folds) != WORDS
    found = suspects(Nearest(), X, WORDS, random_state=0)
    np.testing.assert_array_equal(found.scores_, wrong)
    assert wrong[found.indices_[: wrong.sum()]].all()


def test_what_is_no_estimator_of_scikit_learns_kind_is_refused_by_name():
    for other in (Duck(LogisticRegression()), LogisticRegression):
        with pytest.raises(TypeError, match=r"must be a classifier or a regressor|got the class"):
            AnyEstimatorCoreset(other, proxy=RBF()).fit(X, y)
        with pytest.raises(
            TypeError, match="must be a classifier or a regressor, as scikit-learn's"
        ):
            suspects(other, X, y)
    with pytest.raises(
        TypeError, match=r"scoring='accuracy' asks scikit-learn's tags .* Duck has none"
    ):
        compare(
            LightweightCoreset(),
            Duck(LogisticRegression()),
            X,
            y,
            scoring="accuracy",
            verbose=False,
        )
