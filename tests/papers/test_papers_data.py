"""Profile paper takes the papers' data: no stand-in, and where a data set is missing, why."""

import pytest
from handful.data.registry import ENTRIES
from handful_papers.entries import figure_entry, papers_data
from handful_papers.run import plan

# Names of data sets that a figure's parameters hold, and that stand in for nothing.
BESIDE = {
    "vrm/fig03_minibatch_kmeans": {"digits"},
    "vcgmm/figS2_more_data": {"mnist", "skin_nonskin"},
    # Patches of CIFAR-10 instead of 80 million tiny images, which their authors withdrew.
    "vcgmm/tab02_many_clusters": {"cifar10"},
    # Still images instead of frames of videos.
    "bico/fig02_imbalanced_stream": {"cifar10"},
}
# Data of the paper that profile paper does not run.
MISSING = {
    # A run takes one data set: the other is `-p dataset speech_commands`.
    "bico/fig10_active_learning": {"speech_commands"},
    "bico/tab07_few_labels": {"speech_commands"},
    # On it the paper trains with dropout, which our wide residual network does not have.
    "bico/fig08_networks": {"svhn"},
    # The seismic network's records are at no address that we know.
    "vrm/fig03_minibatch_kmeans": {"csn"},
    "vcgmm/tab02_many_clusters": {"tiny_images"},
    # Frames of videos, for which there is no reader.
    "bico/fig02_imbalanced_stream": {"icubworld"},
}
PAPERS = ("bico", "svm", "vrm", "vcgmm")
RUNS = [run for run in plan("paper", PAPERS) if papers_data(figure_entry(run.name))]
PATCHES = ("colour_patches", "grey_patches")


def words(value):
    """Every str in a parameter."""
    if isinstance(value, str):
        return {value}
    if isinstance(value, dict):
        value = [*value, *value.values()]
    return set().union(*map(words, value)) if isinstance(value, list | tuple) else set()


def is_of(name, wanted):
    """Whether a data set is one of the paper's, or a part of one, or made by a recipe."""
    about = ENTRIES.get(name)
    return name in wanted or (about is not None and about.of in wanted)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_profile_paper_has_no_stand_in_and_lacks_what_is_said(run):
    declared = papers_data(figure_entry(run.name))
    wanted = {one if isinstance(one, str) else one["name"] for one in declared}
    taken = {word for word in words(run.parameters) if word in ENTRIES or word in PATCHES}
    made = {name for name in taken - {*PATCHES} if ENTRIES[name].kind != "file"}
    others = {name for name in taken if not is_of(name, wanted)}
    assert others - made <= BESIDE.get(run.name, set())
    has = {name for name in wanted for one in taken if is_of(one, {name})}
    assert wanted - has == MISSING.get(run.name, set())


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_nothing_stands_for_the_papers_data_at_profile_paper(run):
    tables = [run.parameters.get(key) or [] for key in ("panels", "sets")]
    about = [
        one for table in tables for one in (table.values() if isinstance(table, dict) else table)
    ]
    assert not any(one.get("stands_for") for one in about if isinstance(one, dict))
