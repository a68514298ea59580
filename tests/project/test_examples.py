"""Every example in a docstring runs, and everything at the top of the package has one."""

import doctest
import importlib
import pkgutil

import handful
import pytest

MODULES = [m.name for m in pkgutil.walk_packages(handful.__path__, "handful.")]
# Protocols and containers are shown in the examples of what makes and takes them.
SHOWN_ELSEWHERE = {"Coreset", "Selector"}


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name):
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert failed == 0


@pytest.mark.parametrize("name", sorted(set(handful.__all__) - SHOWN_ELSEWHERE))
def test_what_the_package_exports_has_an_example(name):
    assert ">>>" in getattr(handful, name).__doc__
