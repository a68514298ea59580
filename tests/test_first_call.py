"""The first call: the line that says so, bars, and Ctrl-C in what takes long."""

import pkgutil
import subprocess
import sys
import types

import handful
import numpy as np
import pytest
from handful import BilevelCoreset, MergeReduce, SVMCoreset, UniformCoreset
from handful.bilevel import AnyEstimatorCoreset
from handful.clustering import MiniBatchKMeans
from handful.compiling import PATIENCE, Notice
from sklearn.tree import DecisionTreeClassifier

X = np.random.default_rng(0).normal(size=(400, 4))
Y = np.where(X[:, 0] + 0.5 * X[:, 1] > 0, 1, -1)


def compiling(module):
    """What numba sends when it compiles a function of a module."""
    function = types.SimpleNamespace(__module__=module)
    return types.SimpleNamespace(data={"dispatcher": types.SimpleNamespace(py_func=function)})


@pytest.mark.parametrize(
    ("module", "seconds", "lines"),
    [("handful.svm", 1.1, [1, 0]), ("handful.svm", 0.7, [0, 1]), ("handful.svm", 0.3, [0, 0]), ("other", 5.0, [0, 0])],
)
def test_one_line_says_when_our_functions_take_long_to_compile(module, seconds, lines, monkeypatch, capsys):
    clock = [0.0]
    monkeypatch.setattr("handful.compiling.perf_counter", lambda: clock[0])
    notice, what, inner = Notice(), compiling(module), compiling("numba.np")
    for expected in lines:
        notice.on_start(what)
        clock[0] += seconds * PATIENCE
        notice.on_start(inner)  # a function that it calls
        notice.on_end(inner)
        notice.on_end(what)
        clock[0] += 100.0  # between two calls nothing is compiled
        assert capsys.readouterr().err.count("compiling, once") == expected


HEAVY = (
    "torch",
    "matplotlib",
    "sklearn.cluster",
    "sklearn.ensemble",
    "sklearn.linear_model",
    "sklearn.model_selection",
)
ROOMS = [m.name for m in pkgutil.iter_modules(handful.__path__) if m.ispkg]


def test_importing_handful_loads_nothing_heavy_and_no_room_needs_torch():
    code = f"import sys, handful; print([m for m in {HEAVY} if m in sys.modules])\n"
    code += f"print(*(getattr(handful, room).__name__ for room in {ROOMS})); print('torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout.splitlines() == ["[]", " ".join(f"handful.{room}" for room in ROOMS), "False"], ran.stderr
    assert set(ROOMS) <= set(dir(handful))


def test_what_is_not_there_is_said_to_be_missing():
    with pytest.raises(AttributeError, match="module 'handful' has no attribute 'coresets'"):
        handful.coresets  # noqa: B018
    assert not hasattr(handful, "_room")


@pytest.mark.parametrize(
    "fit",
    [
        lambda verbose: MiniBatchKMeans(3, n_steps=4, random_state=0, verbose=verbose).fit(X),
        lambda verbose: BilevelCoreset(size=12, verbose=verbose).fit(X, Y),
        lambda verbose: AnyEstimatorCoreset(DecisionTreeClassifier(), size=20, n_draws=1, verbose=verbose).fit(X, Y),
        lambda verbose: MergeReduce(UniformCoreset(), size=20, leaf_size=100, random_state=0, verbose=verbose).fit(X),
        lambda verbose: SVMCoreset(20, random_state=0, verbose=verbose).fit(X, Y),
    ],
)
def test_a_bar_shows_where_verbose_asks_for_it(fit, capsys):
    fit(False)
    capsys.readouterr()  # the first fit may say that it compiles
    fit(False)
    assert capsys.readouterr() == ("", "")
    fit(True)
    out, err = capsys.readouterr()
    assert not out
    assert "100%" in err


def test_an_interrupted_mini_batch_k_means_keeps_the_centers_so_far():
    class Interrupting:
        n, draws = len(X), 0

        def sample(self):
            self.draws += 1
            if self.draws == 6:
                raise KeyboardInterrupt
            return np.arange(self.draws, self.draws + 50), np.ones(50)

        def update(self, losses):
            pass

    fitted = MiniBatchKMeans(3, n_steps=5, sampler=Interrupting(), random_state=0).fit(X)
    stopped = MiniBatchKMeans(3, n_steps=50, sampler=Interrupting(), random_state=0)
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(X)
    assert stopped.n_steps_ == 5
    np.testing.assert_array_equal(stopped.cluster_centers_, fitted.cluster_centers_)
    np.testing.assert_array_equal(stopped.predict(X), fitted.labels_)
