"""Names that a package had in the release before."""

import importlib

import handful
import numpy as np
import pytest
from handful.sampling import MixtureSampler, group_components

MOVED = {
    "handful.bilevel.ConjugateGradients": "handful.models.inverse.ConjugateGradients",
    "handful.bilevel.Elimination": "handful.bilevel.exchange.Elimination",
    "handful.bilevel.Joint": "handful.models.Joint",
    "handful.bilevel.Logistic": "handful.models.Logistic",
    "handful.bilevel.Problem": "handful.models.Problem",
    "handful.data.MissingDataError": "handful.data.files.MissingDataError",
    "handful.data.data_folder": "handful.data.files.data_folder",
    "handful.data.split": "handful.data.dataset.split",
    "handful.dictionary.wavelet_atoms": "handful.dictionary.atoms.wavelet_atoms",
    "handful.matching.Check": "handful.matching.DrawsReport",
    "handful.matching.Poisson": "handful.models.Poisson",
    "handful.matching.judge": "handful.matching.check_log_weights",
    "handful.svm.svm_objective": "handful.svm.linear_svm.svm_objective",
}


def named(full_name):
    package, _, name = full_name.rpartition(".")
    return getattr(importlib.import_module(package), name)


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_a_name_that_moved_works_for_one_release_and_says_where_it_is(old, new):
    with pytest.warns(FutureWarning, match=f"^{old} is now {new}; the old name goes") as told:
        found = named(old)
    assert found is named(new)
    assert told[0].filename == __file__
    package, _, name = old.rpartition(".")
    assert name not in dir(importlib.import_module(package))


def test_a_name_that_moved_can_be_imported_from_where_it_was():
    with pytest.warns(FutureWarning, match=r"handful\.models\.Joint"):
        from handful.bilevel import Joint
    assert Joint is handful.models.Joint


def test_a_name_that_needs_torch_says_so_where_it_was(monkeypatch):
    pytest.importorskip("torch")
    with pytest.warns(FutureWarning, match=r"Network is now handful\.models\.Network"):
        assert named("handful.bilevel.Network") is named("handful.models.Network")


def test_fixed_mixture_is_a_mixture_sampler_whose_weights_stay():
    components = group_components(np.arange(12) % 3)
    options = dict(batch_size=6, random_state=0)
    with pytest.warns(FutureWarning, match="MixtureSampler with mixture_weights"):
        old = handful.sampling.FixedMixture(components, **options)
    new = MixtureSampler(components, mixture_weights="equal", **options)
    for sampler in (old, new):
        indices, _ = sampler.sample()
        sampler.update(np.arange(6.0)[indices % 6])
        np.testing.assert_array_equal(sampler.mixture_weights, np.full(4, 0.25))
    np.testing.assert_array_equal(old.sample()[0], new.sample()[0])
