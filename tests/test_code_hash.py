"""Hashes of functions tell apart what they do, and nothing else."""

import os
import pickle
import subprocess
import sys
import threading
from functools import lru_cache, partial, singledispatch
from types import ModuleType

import numpy as np
import pytest
from handful.code_hash import code_hash
from handful.models import Problem
from numba import njit

FACTOR = 2.0


def plain(x):
    return FACTOR * x


def in_a_comprehension(x):
    return [FACTOR * value for value in x]


def in_a_generator(x):
    return sum(FACTOR * value for value in x)


def in_a_lambda(x):
    return (lambda value: FACTOR * value)(x)


def in_a_nested_function(x):
    def inner(value):
        return FACTOR * value

    return inner(x)


def by_another(x):
    return in_a_comprehension(x)


def by_itself(x, depth=2):
    return by_itself(x, depth - 1) if depth else plain(x)


@lru_cache
def remembered(x):
    return FACTOR * x


class Scaler:
    def __call__(self, x):
        return [FACTOR * value for value in x]

    def scaled(self, x):
        return self(x)

    @property
    def factor(self):
        return FACTOR

    @classmethod
    def of(cls, x):
        return FACTOR * x


class Own(Problem):
    def loss(self, theta, x, y):
        return FACTOR * theta


READERS = {
    "plain": plain,
    "comprehension": in_a_comprehension,
    "generator": in_a_generator,
    "lambda": in_a_lambda,
    "nested": in_a_nested_function,
    "another": by_another,
    "itself": by_itself,
    "remembered": remembered,
    "compiled": njit(plain),
    "object": Scaler(),
    "method": Scaler().scaled,
    "class method": Scaler.of,
    "partial": partial(plain),
    "partial of another": partial(map, in_a_lambda),
    "problem": Own(),
    "class": Scaler,
}


@pytest.mark.parametrize("given", [False, True], ids=["the function", "what it is given"])
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_a_variable_that_is_read_anywhere_within_tells_functions_apart(reader, given, monkeypatch):
    def found():
        return code_hash(max, {"of": [reader]}) if given else code_hash(reader)

    first = found()
    assert found() == first
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert found() != first
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    assert found() == first


def test_new_code_under_an_old_name_is_another_function():
    hashes = set()
    for source in ("x", "-x", "x + 1"):
        scope = {"__name__": "a_script"}
        exec(f"def f(x): return {source}\nclass A:\n  def f(self, x): return {source}", scope)
        hashes |= {code_hash(scope["f"]), code_hash(scope["A"]().f), code_hash(max, scope["A"]())}
    assert len(hashes) == 3 * 3


def test_places_in_a_file_do_not_count_but_values_do():
    here = lambda x: x in {"red", "green", "blue"}  # noqa: E731
    # the same on another line
    there = lambda x: x in {"red", "green", "blue"}  # noqa: E731
    there.__qualname__ = here.__qualname__
    assert code_hash(here) == code_hash(there)
    data = np.arange(6.0)
    assert code_hash(plain, data) == code_hash(plain, data.copy())
    assert code_hash(plain, data) != code_hash(plain, data[::-1])


def test_what_cannot_be_pickled_is_an_error():
    lock = threading.Lock()
    with pytest.raises(pickle.PicklingError):
        code_hash(lambda: lock)


def test_the_hash_is_that_of_any_process():
    code = (
        "from handful.code_hash import code_hash\n"
        "print(code_hash(lambda x: x in {'red', 'green', 'blue', 'black'}))"
    )
    found = set()
    for seed in "12":
        environment = os.environ | {"PYTHONHASHSEED": seed}
        found.add(subprocess.check_output([sys.executable, "-c", code], env=environment))
    assert len(found) == 1


def test_what_is_read_of_a_module_of_ones_own_counts(monkeypatch):
    own, inner = ModuleType("own"), ModuleType("own.inner")
    own.inner, inner.outer = inner, own
    for module in (own, inner):
        module.SCALE = 1.0
        exec("def scaled(x): return SCALE * x", vars(module))
        monkeypatch.setitem(sys.modules, module.__name__, module)
    scope = {"__name__": "a_script", "own": own}
    sources = {
        "def f(x): return own.SCALE * x": own,
        "def f(x): return own.scaled(x)": own,
        "def f(x): return own.inner.scaled(x)": inner,
        "def f(x): return own.inner.outer.SCALE * x": own,
        "def f(x):\n    import own as here\n    return here.scaled(x)": own,
        "def f(x):\n    from own import scaled\n    return scaled(x)": own,
    }
    for source, module in sources.items():
        exec(source, scope)
        first = code_hash(scope["f"])
        assert code_hash(scope["f"]) == first
        module.SCALE = 2.0
        assert code_hash(scope["f"]) != first, source
        module.SCALE = 1.0


def with_an_attribute(x):
    return with_an_attribute.factor * x


@singledispatch
def by_type(x):
    return x


def test_what_is_set_on_a_function_tells_it_apart():
    hashes = []
    for factor in (1.0, 2.0, 1.0):
        with_an_attribute.factor = factor
        hashes.append(code_hash(with_an_attribute))
    assert hashes[0] == hashes[2] != hashes[1]
    before = code_hash(by_type)
    assert code_hash(by_type) == before
    by_type.register(float, lambda x: 2 * x)
    assert code_hash(by_type) != before
