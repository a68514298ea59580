"""A user's script under `mypy --strict` gets the types of what the library hands back."""

import ast
import inspect
import re
import typing
from importlib import import_module
from pkgutil import walk_packages

import handful
import pytest

SCRIPT = """\
from typing import Any

import handful
from handful import AnyEstimatorCoreset, BilevelCoreset, CoresetEstimator, Logistic, suspects
from handful.streaming import ReservoirCoreset

X: Any
y: Any
estimator: Any
selector = BilevelCoreset(Logistic(l2=1e-3), size=100, random_state=0)
reveal_type(selector.fit(X, y))
reveal_type(selector.take(X, y))
reveal_type(ReservoirCoreset(selector, size=100).rows())
reveal_type(AnyEstimatorCoreset(estimator).fit(X, y))
reveal_type(CoresetEstimator(selector, estimator).fit(X, y))
reveal_type(handful.compare(selector, estimator, X, y))
reveal_type(suspects(estimator, X, y))
"""
SHOWN = """\
handful.bilevel.selector.BilevelCoreset
list[Any]
tuple[Any, Any, numpy.ndarray
handful.bilevel.any_estimator.AnyEstimatorCoreset
handful.estimator.CoresetEstimator
handful.comparison.Comparison
handful.attribution.Suspects
""".splitlines()


def _classes():
    for module in walk_packages(handful.__path__, "handful."):
        for _, cls in inspect.getmembers(import_module(module.name), inspect.isclass):
            if cls.__module__ == module.name and "_options" in vars(cls):
                yield cls


def _words_of(check):
    """The words that an option may be, from what its check says of another one; none where any text is refused."""
    try:
        check("option", "no such word", of=None)
    except (ValueError, TypeError) as error:
        found = re.search(r"must be one of (\(.*\)), got|it may also be (.*)\.$", str(error))
        if found:
            said = ast.literal_eval(found[1] or f"({found[2].replace(' or ', ', ')},)")
            return {word for word in said if isinstance(word, str)}
    return set()


def test_an_option_that_is_a_word_says_so_in_its_type():
    tried = 0
    for cls in _classes():
        hints = typing.get_type_hints(cls.__init__)
        for name in inspect.signature(cls).parameters:
            words = _words_of(vars(cls)["_options"][name]) if name in vars(cls)["_options"] else set()
            if words and hints.get(name) is not typing.Any:  # `Any` where centres or a matrix may stand as well
                parts = [hints[name], *typing.get_args(hints[name])]
                typed = {word for part in parts if typing.get_origin(part) is typing.Literal for word in part.__args__}
                assert typed == words, (cls, name)
                tried += 1
    assert tried >= 12


def test_a_strict_user_gets_types(tmp_path):
    mypy = pytest.importorskip("mypy.api")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    options = ["--strict", "--follow-imports=silent", "--ignore-missing-imports", "--cache-dir", str(tmp_path)]
    told = mypy.run([*options, str(script)])[0]
    shown = [name.replace("builtins.", "") for name in re.findall(r'Revealed type is "(.*)"', told)]
    assert len(shown) == len(SHOWN), told
    assert [pair for pair in zip(shown, SHOWN) if not pair[0].startswith(pair[1])] == []
    assert "error" not in told, told
