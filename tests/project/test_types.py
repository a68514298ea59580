"""A user's script under `mypy --strict` gets the types of what the library hands back."""

import re

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
handful.bilevel.bilevel_coreset.BilevelCoreset
list[Any]
tuple[Any, Any, numpy.ndarray
handful.bilevel.any_estimator.AnyEstimatorCoreset
handful.estimator.CoresetEstimator
handful.comparison_table.Comparison
handful.attribution.Suspects
""".splitlines()


def test_a_strict_user_gets_types(tmp_path):
    mypy = pytest.importorskip("mypy.api")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    options = [
        "--strict",
        "--follow-imports=silent",
        "--ignore-missing-imports",
        "--cache-dir",
        str(tmp_path),
    ]
    told = mypy.run([*options, str(script)])[0]
    shown = [name.replace("builtins.", "") for name in re.findall(r'Revealed type is "(.*)"', told)]
    assert len(shown) == len(SHOWN), told
    assert [pair for pair in zip(shown, SHOWN) if not pair[0].startswith(pair[1])] == []
    assert "error" not in told, told
