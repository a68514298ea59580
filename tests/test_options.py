"""Options that are declared as fields: signatures, checks by type, and classes that write
`__init__` themselves."""

import inspect
import pickle
from dataclasses import KW_ONLY
from typing import Annotated, Any, ClassVar, Literal

import pytest
from handful import CoresetEstimator, KCenter, LeastSquares, LinearSVM, Logistic
from handful.coreset import Selector
from handful.matching import Poisson
from handful.options import Count, NonNegative, Options, check_options, number
from sklearn.base import clone


class Thing(Options):
    first: Any
    n: Count = 3
    _: KW_ONLY
    word: Literal["auto", "other"] | Annotated[float, number(above=0, below=1)] | None = "auto"
    rest: NonNegative | None = None
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
        "rest: Optional[float] = None) -> None"
    )
    assert list(inspect.signature(Further).parameters) == ["first", "n", "last", "word", "rest"]
    assert Plain(1, 2).get_params() == dict(first=1, n=2, word="auto", rest=None)


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
        (dict(last=None), r"^last of Further must be one of \('a', 'b'\), got last=None\.$"),
    ],
)
def test_a_type_refuses_what_it_does_not_say(options, message):
    check_options(Further(None, word=None, rest=0, last="b"))
    with pytest.raises(ValueError, match=message):
        check_options(Further(None, **options))


def test_a_class_that_writes_its_init_keeps_it():
    assert Own().get_params() == {"size": 7}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Logistic(C=1.0),
            r"Logistic got .*'C'; of n rows.* l2 = 1 / \(C n\). The options of Log",
        ),
        (
            lambda: LeastSquares(alpha=1.0),
            r"LeastSquares got .*'alpha'.* l2 = alpha / n\. .* are l2, fit_int",
        ),
        (lambda: LinearSVM(C=1.0), r"LinearSVM got .*'C'.* l2 = 1 / \(C n\); l2=None is C=1"),
        (lambda: Poisson(alpha=1.0), "Poisson got .*alpha of PoissonRegressor is l2 itself"),
        (
            lambda: Logistic(1e-2, True),
            "Logistic too many positional arguments. The options of Logistic are l2",
        ),
        (
            lambda: KCenter(n_clusters=3),
            "KCenter got .*'n_clusters'. The options of KCenter are size",
        ),
        (
            lambda: CoresetEstimator(KCenter()),
            "CoresetEstimator missing a required argument: 'estimator'",
        ),
    ],
)
def test_an_option_that_is_none_is_named_with_the_class_and_what_takes_its_place(make, message):
    with pytest.raises(TypeError, match=message):
        make()
