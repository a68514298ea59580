"""Options that are declared as fields: signatures, checks by type, and classes that write
`__init__` themselves."""

import inspect
import pickle
import warnings
from dataclasses import KW_ONLY
from importlib import import_module
from inspect import isclass
from pkgutil import walk_packages
from typing import Annotated, Any, ClassVar, Literal

import handful
import numpy as np
import pytest
from handful import (
    VCGMM,
    BilevelCoreset,
    CoresetEstimator,
    KCenter,
    LeastSquares,
    LinearSVM,
    Logistic,
    MatchedCoreset,
)
from handful.active import ActiveLoop, Badge
from handful.baselines import KMeansPlusPlus
from handful.bilevel.exchange import Exchange
from handful.blocks import Blocks
from handful.coreset import Selector
from handful.models import Poisson
from handful.options import Count, NonNegative, Options, check_options, number
from handful.sampling import MixtureSampler
from sklearn.base import clone


class Thing(Options):
    first: Any
    n: Count = 3
    _: KW_ONLY
    word: Literal["auto", "other"] | Annotated[float, number(above=0, below=1)] | None = "auto"
    rest: NonNegative | None = None
    said: bool = False
    table: ClassVar[tuple] = ()
    flag = False


class Further(Thing):
    last: Literal["a", "b"] = "a"


class Plain(Thing):
    flag = True


class Own(Selector):
    _ready: ClassVar[bool] = False

    def __init__(self, size=7):
        self.size = size


def test_fields_are_the_signature_without_their_checks():
    assert str(inspect.signature(Thing)) == (
        "(first: Any, n: int = 3, *, word: Union[Literal['auto', 'other'], float, NoneType] = "
        "'auto', "
        "rest: Optional[float] = None, said: bool = False) -> None"
    )
    assert list(inspect.signature(Further).parameters) == [
        "first",
        "n",
        "last",
        "word",
        "rest",
        "said",
    ]
    assert Plain(1, 2).get_params() == dict(first=1, n=2, word="auto", rest=None, said=False)


def test_sklearn_sees_options_as_its_own():
    thing = clone(Further(1)).set_params(n=5, word=0.5)
    assert repr(thing) == "Further(first=1, n=5, word=0.5)"
    assert pickle.loads(pickle.dumps(thing)).get_params() == thing.get_params()
    assert thing != clone(thing)
    assert len({thing, clone(thing)}) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(n=0), r"^n of Further must be an integer of at least 1, got n=0\.$"),
        (
            dict(word="no"),
            r"^word of Further must be a finite .* got word='no': "
            r"it may also be 'auto' or 'other'\.$",
        ),
        (
            dict(word=1),
            "^word of Further must be a finite number greater than 0 and less than 1, got word=1: "
            "it may",
        ),
        (
            dict(rest=-1.0),
            r"^rest of Further must be a finite number of at least 0, got rest=-1\.0\.$",
        ),
        (dict(said="no"), r"^said of Further must be True or False, got said='no'\.$"),
        (dict(said=None), r"^said of Further must be True or False, got said=None\.$"),
        (dict(last=None), r"^last of Further must be one of \('a', 'b'\), got last=None\.$"),
    ],
)
def test_a_type_refuses_what_it_does_not_say(options, message):
    check_options(Further(None, word=None, rest=0, last="b"))
    for said in (True, np.True_, 1, 0):
        check_options(Further(None, said=said))
    with pytest.raises(ValueError, match=message):
        check_options(Further(None, **options))


def test_a_class_that_writes_its_init_keeps_it():
    assert Own().get_params() == {"size": 7}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Logistic(C=1.0),
            r"Logistic: got .*'C'; of n rows.* l2 = 1 / \(C n\). The options of Log",
        ),
        (
            lambda: LeastSquares(alpha=1.0),
            r"LeastSquares: got .*'alpha'.* l2 = alpha / n\. .* are l2, fit_int",
        ),
        (lambda: LinearSVM(C=1.0), r"LinearSVM: got .*'C'.* l2 = 1 / \(C n\); l2=None is C=1"),
        (lambda: Poisson(alpha=1.0), "Poisson: got .*alpha of PoissonRegressor is l2 itself"),
        (
            lambda: Logistic(1e-2, True),
            "Logistic: too many positional arguments. The options of Logistic are l2",
        ),
        (
            lambda: KCenter(n_clusters=3),
            r"KCenter: got .*'n_clusters'; did you mean size\? The options of KCenter are size",
        ),
        (
            lambda: CoresetEstimator(KCenter()),
            "CoresetEstimator: missing a required argument: 'estimator'",
        ),
        (
            lambda: MixtureSampler(np.ones((1, 3)) / 3, batchsize=2),
            r"MixtureSampler: got .*'batchsize'; did you mean batch_size\? The options of Mix",
        ),
        (
            lambda: MixtureSampler(labels=[0, 1]),
            r"MixtureSampler: .*; got 'labels'; group_components\(labels\) are probabilities",
        ),
        (lambda: MixtureSampler(), "MixtureSampler: missing a required argument: 'probabil"),
        (
            lambda: ActiveLoop(min, rows=9, classes="ab"),
            "ActiveLoop: .*; got 'rows'; the number of points is n_pool",
        ),
        (
            lambda: ActiveLoop(min, n_pool=9, classes="ab", answers="a.json"),
            "ActiveLoop: got .*'answers'; the file of answers is path. The options of ActiveLoop",
        ),
        (
            lambda: ActiveLoop(min, n_pools=9, classes="ab"),
            r"ActiveLoop: .*; did you mean n_pool\? The",
        ),
        (lambda: KMeansPlusPlus(siz=3), r"KMeansPlusPlus: got .*'siz'; did you mean size\? The"),
        (
            lambda: Badge(batch_size=3),
            r"'batch_size'; the number of points is n of query\(n, \.\.\.\)",
        ),
        (lambda: VCGMM(k=3), r"'k'; did you mean n_clusters\? The options of VCGMM"),
        (lambda: VCGMM(size=3), r"'size'; did you mean n_clusters\? The options of VCGMM"),
        (lambda: KMeansPlusPlus(seed=3), r"'seed'; did you mean random_state\? The options"),
        (
            lambda: BilevelCoreset(l2=3),
            r"'l2'; the penalty .* problem, as in Logistic\(l2=1e-2\)\. ",
        ),
        (lambda: MatchedCoreset(C=3), r"'C'; the penalty is an option of the problem"),
        (
            lambda: CoresetEstimator(selectr=KCenter(), estimator=3),
            r"missing .* 'selector'; got 'selectr'; did you mean selector\? The options",
        ),
        (lambda: KCenter(nothing_like_it=3), r"'nothing_like_it'\. The options of KCenter"),
    ],
)
def test_an_option_that_is_none_is_named_with_the_class_and_what_takes_its_place(make, message):
    with pytest.raises(TypeError, match=message):
        make()


OF_LOGISTIC = r" is l2 = 1 / \(C n\)\. Valid parameters are: \['fit_intercept', 'l2', 'penal"


@pytest.mark.parametrize(
    ("thing", "options", "message"),
    [
        (
            Logistic(),
            dict(C=1.0),
            rf"^Invalid parameter 'C' for estimator Logistic\(\);.*{OF_LOGISTIC}",
        ),
        (BilevelCoreset(Logistic()), dict(problem__C=1.0), OF_LOGISTIC),
        (LeastSquares(), dict(alpha=1.0), r"l2 = alpha / n\. Valid"),
        (LinearSVM(), dict(C=1.0), r"l2=None is C=1\. Valid"),
        (BilevelCoreset(), dict(l2=1.0), r"as in Logistic\(l2=1e-2\)\. Valid"),
        (KCenter(), dict(siz=3), r"'siz' for estimator KCenter\(\); did you mean size\? Valid"),
        (KCenter(), dict(seed=3), r"did you mean random_state\? Valid"),
        (KCenter(), dict(nothing_like_it=3), r"KCenter\(\)\. Valid parameters are: \['random_s"),
        (
            CoresetEstimator(KCenter(), LinearSVM()),
            dict(l2=3),
            r"; did you mean estimator__l2\? Valid parameters are: \['estimator', 'memory'",
        ),
        (
            CoresetEstimator(KCenter(), LinearSVM()),
            dict(size=3),
            r"; did you mean selector__size\? Valid",
        ),
    ],
)
def test_set_params_says_what_the_constructor_says(thing, options, message):
    with pytest.raises(ValueError, match=message):
        thing.set_params(**options)


# What comes out of the library is made by it, and not by hand.
RESULTS = {"Coreset", "DrawsReport"}


def public_classes():
    """Every class of a public name of the library, by name; those of exceptions left out."""
    modules = [import_module(found.name) for found in walk_packages(handful.__path__, "handful.")]
    named = [
        (name, getattr(module, name))
        for module in (handful, *modules)
        for name in getattr(module, "__all__", ())
    ]
    return {
        name: thing
        for name, thing in named
        if isclass(thing) and not issubclass(thing, BaseException) and name not in RESULTS
    }


@pytest.mark.parametrize(("name", "kind"), sorted(public_classes().items()))
def test_every_public_class_names_its_options_where_one_is_none_of_them(name, kind):
    with pytest.raises(TypeError, match=f"{name}: .*[^?]. The options of {name} are "):
        kind(no_such_option=1)


def test_options_are_set_all_or_none():
    thing = KCenter(3)
    with pytest.raises(ValueError, match="'siz'"):
        thing.set_params(size=4, siz=5)
    assert thing.size == 3
    assert thing.set_params(size=4, weighting="cells") is thing
    assert (thing.size, thing.weighting) == (4, "cells")


OLD_WORD = {
    "bilevel": BilevelCoreset(Logistic(), size=12, random_state=0),
    "in blocks": BilevelCoreset(Logistic(), size=12, random_state=0),
    "centres": KMeansPlusPlus(12, random_state=0),
}


@pytest.mark.parametrize("name", OLD_WORD)
def test_a_word_of_the_release_before_means_what_it_meant_and_names_the_new_one(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    if name == "in blocks":
        X = Blocks(X, y, rows=150)
        y = None
    new = clone(OLD_WORD[name]).set_params(weighting="equal")
    old = clone(OLD_WORD[name]).set_params(weighting="binary")
    with warnings.catch_warnings(action="error", category=FutureWarning):
        new.fit(X, y)
    said = r"weighting='binary' of \w+ is now weighting='equal'; the old word goes with the next"
    with pytest.warns(FutureWarning, match=said):
        old.fit(X, y)
    np.testing.assert_array_equal(old.indices_, new.indices_)
    np.testing.assert_array_equal(old.weights_, new.weights_)
    assert old._ranks == new._ranks
    assert old.get_params()["weighting"] == "binary"
    with pytest.raises(ValueError, match="must be one of") as told:
        clone(new).set_params(weighting="binory").fit(X, y)
    assert "'binary'" not in str(told.value)


def test_words_and_truths_of_numpy_are_those_of_python():
    """A grid of options is an array of them."""
    weighting = np.array(["equal", "optimised"])[0]
    outer_penalty = np.array([True, False])[1]
    given = BilevelCoreset(size=5, weighting=weighting, outer_penalty=outer_penalty, random_state=0)
    same = BilevelCoreset(size=5, weighting="equal", outer_penalty=False, random_state=0)
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int)
    np.testing.assert_array_equal(given.fit(X, y).indices_, same.fit(X, y).indices_)
    with pytest.raises(ValueError, match="weighting of BilevelCoreset must be one of"):
        BilevelCoreset(weighting=np.str_("none")).fit(X, y)


def test_the_picture_of_an_estimator_links_to_its_place_on_the_site(monkeypatch):
    pages = "https://someone.github.io/handful/reference"
    monkeypatch.setattr(
        handful.options, "site_address", lambda: "https://someone.github.io/handful"
    )
    links = {
        KCenter(): f"{pages}/handful.baselines.html#handful.baselines.KCenter",
        Logistic(): f"{pages}/handful.models.html#handful.models.Logistic",
        CoresetEstimator(KCenter(), LinearSVM()): f"{pages}/handful.html#handful.CoresetEstimator",
    }
    for estimator, link in links.items():
        assert estimator._get_doc_link() == link
        assert link in estimator._repr_html_()
    # A class of the user's own has no page there, nor has one that its package does not offer.
    assert Thing(1)._get_doc_link() == ""
    assert Exchange()._get_doc_link() == ""
    monkeypatch.setattr(handful.options, "site_address", lambda: "")
    assert KCenter()._get_doc_link() == ""
