"""The first call: what importing loads, names that are gone, bars, and Ctrl-C in what takes
long."""

import importlib
import pkgutil
import subprocess
import sys

import handful
import numpy as np
import pytest
from handful.clustering import MiniBatchKMeans

X = np.random.default_rng(0).normal(size=(400, 4))
Y = np.where(X[:, 0] + 0.5 * X[:, 1] > 0, 1, -1)

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
    code += (
        f"print(*(getattr(handful, room).__name__ for room in {ROOMS})); print('torch' in "
        "sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout.splitlines() == [
        "[]",
        " ".join(f"handful.{room}" for room in ROOMS),
        "False",
    ], ran.stderr
    assert set(ROOMS) <= set(dir(handful))


def test_what_is_not_there_is_said_to_be_missing():
    with pytest.raises(AttributeError, match="module 'handful' has no attribute 'coresets'"):
        handful.coresets  # noqa: B018
    assert not hasattr(handful, "_room")


@pytest.mark.parametrize(
    ("module", "name", "now"),
    [
        ("handful", "unrolled", "handful_papers.public.unrolled"),
        ("handful", "network_influence", "handful_papers.public.network_influence"),
        ("handful.sensitivity", "LewisCoreset", "LogisticSensitivity or SVMCoreset"),
    ],
)
def test_a_name_that_is_gone_says_what_is_there_in_its_place(module, name, now):
    with pytest.raises(ImportError, match=f"{module}.{name} was removed: .*{now}"):
        exec(f"from {module} import {name}")
    assert name not in dir(importlib.import_module(module))


def test_an_interrupted_mini_batch_k_means_keeps_the_centers_so_far():
    class Interrupting:
        n = len(X)
        draws = 0

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
