"""The bars of long work: at once where `verbose` asks, after half a minute where nobody does."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
import tqdm.std
from handful import (
    VCGMM,
    AnyEstimatorCoreset,
    BilevelCoreset,
    KCenter,
    MatchedCoreset,
    MergeReduce,
    SVMCoreset,
    UniformCoreset,
    compare,
    suspects,
)
from handful.baselines import Herding
from handful.blocks import Blocks
from handful.clustering import MiniBatchKMeans
from handful.dictionary import MeasurementSelector
from handful.matching import recombine
from handful.matching.recombine import pursue
from handful.proxies import RBF, Nystrom
from handful.running import DELAY, Bar
from joblib import Parallel, delayed
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

X = np.random.default_rng(0).normal(size=(300, 4))
Y = (X[:, 0] + X[:, 1] > 0).astype(int)
TIME_LEFT = re.compile(r"\[[\d:]+<[\d:]+")


class Clock:
    """Time that passes only where it is looked at, `tick` seconds a look."""

    def __init__(self, tick):
        self.now = 1000.0
        self.tick = tick

    def __call__(self):
        self.now += self.tick
        return self.now


@pytest.fixture
def clock(monkeypatch):
    def set_clock(tick):
        made = Clock(tick)
        monkeypatch.setattr(tqdm.std, "time", made)
        return made

    return set_clock


def merge_reduce(verbose):
    stream = MergeReduce(UniformCoreset(), size=20, leaf_size=100, random_state=0, verbose=verbose)
    return stream.fit(X)


def any_estimator(verbose):
    model = DecisionTreeClassifier()
    return AnyEstimatorCoreset(model, size=20, n_draws=1, verbose=verbose).fit(X, Y)


def comparison(verbose):
    options = dict(sizes=[20], seeds=2, controls=False, verbose=verbose)
    return compare(KCenter(), LogisticRegression(), X, Y, **options)


ASKED = {
    "MiniBatchKMeans": lambda verbose: MiniBatchKMeans(
        3, n_steps=4, random_state=0, verbose=verbose
    ).fit(X),
    "BilevelCoreset": lambda verbose: BilevelCoreset(size=12, verbose=verbose).fit(X, Y),
    "AnyEstimatorCoreset": any_estimator,
    "MergeReduce": merge_reduce,
    "SVMCoreset": lambda verbose: SVMCoreset(20, random_state=0, verbose=verbose).fit(X, Y),
    "MeasurementSelector": lambda verbose: MeasurementSelector(size=4, verbose=verbose).fit(X),
    "Nystrom": lambda verbose: Nystrom(RBF(), n_landmarks=5, verbose=verbose).fit_transform(X),
    "compare": comparison,
    "Blocks": lambda verbose: Blocks(X, rows=50, verbose=verbose).map(np.shape),
}
UNASKED = {name: lambda fit=fit: fit(False) for name, fit in ASKED.items()} | {
    "VCGMM": lambda: VCGMM(3, random_state=0).fit(X),
    "MatchedCoreset": lambda: MatchedCoreset(random_state=0).fit(X, Y),
    "posterior": lambda: MatchedCoreset(at="posterior", random_state=0).fit(X, Y),
    "pursue": lambda: pursue(X, np.ones(len(X)), 4),
    "KCenter": lambda: KCenter(12, random_state=0).fit(X),
    "Herding": lambda: Herding(12).fit(X),
    "recombine": lambda: recombine(np.column_stack([np.ones(len(X)), X])),
    "suspects": lambda: suspects(LogisticRegression(), X, Y, random_state=0),
}


@pytest.mark.parametrize("fit", ASKED.values(), ids=ASKED)
def test_a_bar_shows_at_once_where_verbose_asks_for_it(fit, capsys, clock):
    clock(1e-3)
    fit(True)
    out, err = capsys.readouterr()
    assert not out
    assert "100%" in err


@pytest.mark.filterwarnings("ignore:it hardly pays")
@pytest.mark.parametrize("fit", UNASKED.values(), ids=UNASKED)
def test_work_of_half_a_minute_says_so_and_shorter_work_is_silent(fit, capsys, clock):
    clock(1e-6)
    fit()
    assert capsys.readouterr() == ("", "")
    clock(40.0)
    fit()
    out, err = capsys.readouterr()
    assert not out
    assert TIME_LEFT.search(err) or "EM: " in err
    # nothing is left of a bar that nobody asked for
    assert not err.split("\r")[-1].strip()


def test_nothing_is_shown_before_the_delay_is_over_and_the_time_left_after_it(capsys, clock):
    time = clock(0.0)
    with Bar(total=100, desc="work") as bar:
        bar.reset(100)
        for _ in range(10):
            time.now += (DELAY - 0.1) / 10
            bar.set_postfix_str("a part")
            bar.update()
        assert capsys.readouterr().err == ""
        time.now += 0.1
        bar.update()
        assert "work:  11%" in (shown := capsys.readouterr().err)
        # eleven of a hundred took half a minute
        assert re.search(r"\[00:30<04:0\d, ", shown)
    assert not capsys.readouterr().err.strip()


def interrupted(verbose):
    with Bar(range(100), verbose=verbose) as bar:
        for step in bar:
            if step == 5:
                raise KeyboardInterrupt


@pytest.mark.parametrize("verbose", [False, True])
def test_an_interruption_leaves_no_bar_on_the_line(verbose, capsys, clock):
    clock(20.0)
    with pytest.raises(KeyboardInterrupt):
        interrupted(verbose)
    err = capsys.readouterr().err
    assert "/100" in err
    # the line is wiped, or ended
    assert err.endswith("\n") if verbose else not err.split("\r")[-1].strip()


def slow_bar():
    tqdm.std.time = Clock(20.0)
    with Bar(range(10)) as bar:
        return sum(bar), bar.disable


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_workers_are_silent(backend, capfd, monkeypatch):
    # set back afterwards, as threads change it here
    monkeypatch.setattr(tqdm.std, "time", tqdm.std.time)
    found = Parallel(2, backend=backend)(delayed(slow_bar)() for _ in range(2))
    assert [total for total, _ in found] == [45, 45]
    assert capfd.readouterr().err == ""


def test_a_variable_of_tqdm_hides_every_bar():
    code = (
        "import tqdm.std; clock = iter(range(0, 10**6, 40)); tqdm.std.time = lambda: next(clock)\n"
        "from handful.running import Bar\n"
        "for verbose in (False, True): list(Bar(range(9), verbose=verbose))"
    )
    for hidden in ("1", ""):
        environment = os.environ | {"TQDM_DISABLE": hidden}
        command = [sys.executable, "-c", code]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert bool(ran.stderr) is not bool(hidden)


def test_results_do_not_depend_on_the_clock(clock):
    clock(1e-6)
    fast = [BilevelCoreset(size=12, random_state=0).fit(X, Y).indices_, suspect_scores()]
    clock(20.0)
    slow = [BilevelCoreset(size=12, random_state=0).fit(X, Y).indices_, suspect_scores()]
    for a, b in zip(fast, slow):
        np.testing.assert_array_equal(a, b)


def suspect_scores():
    return suspects(LogisticRegression(), X, Y, random_state=0).scores_


SCALES = X * [1.0, 1e4, 1.0, 1.0]
RARE = (np.arange(len(X)) == 0).astype(int)
WARNED = {
    "scales": lambda: BilevelCoreset(size=10, random_state=0).fit(SCALES, Y),
    "scales, of clusters": lambda: VCGMM(2, random_state=0).fit(SCALES),
    "an old word": lambda: BilevelCoreset(size=10, weighting="binary").fit(X, Y),
    "a lost class": lambda: UniformCoreset(size=3, random_state=0).fit(X, RARE),
    "a lost class, in blocks": lambda: UniformCoreset(size=3, random_state=0).fit(
        Blocks(X, RARE, rows=100)
    ),
    "few rows": lambda: MatchedCoreset(random_state=0).fit(X[:20], Y[:20]),
    "by the way of compare": lambda: compare(
        {"far": KCenter()}, KNeighborsClassifier(3), SCALES, Y, sizes=[20], seeds=1
    ),
}


@pytest.mark.parametrize("call", WARNED.values(), ids=WARNED)
def test_a_warning_shows_the_line_that_called_the_library(call):
    with pytest.warns() as given:
        call()
    assert {warning.filename for warning in given} == {__file__}
