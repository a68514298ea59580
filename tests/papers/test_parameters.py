"""A run's parameters: known by name, fit for a record, and those that ran; and tables and bands of
a single seed."""

import json
import math
import shutil

import numpy as np
import pandas as pd
import pytest
from handful.data.registry import ENTRIES
from handful_papers import Experiment
from handful_papers.bico import METHODS
from handful_papers.entries import figure_entry, names, papers_data
from handful_papers.parameters import NOTEBOOKS, cell_parameters, run_parameters
from handful_papers.run import plan
from handful_papers.spread import mean_and_deviation
from handful_papers.svm.panels import draw_errors
from matplotlib.figure import Figure

NAME = "bico/fig06_binary_logistic"


@pytest.fixture
def cell():
    return cell_parameters(NOTEBOOKS / f"{NAME}.ipynb")


@pytest.mark.parametrize("name", names())
def test_every_notebook_takes_a_number_of_seeds(name):
    assert "n_seeds" in cell_parameters(NOTEBOOKS / f"{name}.ipynb")


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, np.float64("nan"), [0.1, math.inf], {"a": [math.nan]}]
)
def test_a_value_that_no_record_holds_is_refused_before_anything_runs(value, cell):
    with pytest.raises(ValueError, match=f"{NAME}: parameter l2 = .* cannot stand in a record"):
        Experiment(NAME, cell | {"l2": value})
    with pytest.raises(ValueError, match=f"{NAME}: fact gain = .* cannot stand in a record"):
        Experiment(NAME, cell).fact(gain=value)


@pytest.mark.parametrize(
    ("given", "near"),
    [("nseeds", "n_seeds"), ("n_seed", "n_seeds"), ("n_Seeds", "n_seeds"), ("size", "sizes")],
)
def test_a_misspelt_parameter_is_refused_with_the_name_that_was_meant(given, near, cell):
    with pytest.raises(ValueError, match=f"has no parameter {given}. Did you mean {near}\\?"):
        run_parameters(NAME, cell | {given: 1})


def test_what_is_computed_is_no_parameter_where_cells_run_again(cell):
    namespace = cell | {"exp": Experiment(NAME, cell), "n_rows": 7, "L2": 3.0}
    assert Experiment(NAME, namespace | {"n_seeds": 2}).parameters == cell | {"n_seeds": 2}


def test_parameters_are_recorded_as_they_are_read_back(cell):
    found = Experiment(NAME, cell | {"sizes": (20, np.int64(40))}).parameters
    assert found["sizes"] == [20, 40]
    assert json.loads(json.dumps(found)) == found
    with pytest.raises(ValueError, match=r"parameter sizes = .* cannot stand in a record"):
        Experiment(NAME, cell | {"sizes": range})


def test_a_source_that_holds_an_earlier_runs_parameters_is_refused(tmp_path):
    path = shutil.copy(NOTEBOOKS / f"{NAME}.ipynb", tmp_path)
    notebook = json.loads((tmp_path / "fig06_binary_logistic.ipynb").read_text(encoding="utf-8"))
    cell = {
        "cell_type": "code",
        "source": "n_seeds = 1",
        "metadata": {"tags": ["injected-parameters"]},
    }
    notebook["cells"].insert(2, cell)
    (tmp_path / "fig06_binary_logistic.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    with pytest.raises(ValueError, match="holds the parameters of an earlier run by papermill"):
        cell_parameters(path)


# --- one seed has no spread

ROWS = pd.DataFrame(
    [
        dict(m=m, k=k, seed=s, v=m + k**2 + 0.1 * s * k)
        for m in (1.0, 2.0)
        for k in (1, 2)
        for s in range(3)
    ]
)


@pytest.mark.parametrize("n_seeds", [1, 3])
def test_a_table_of_means_is_that_of_a_loop_and_one_seed_has_no_deviation(n_seeds):
    rows = ROWS[ROWS.seed < n_seeds].assign(method=lambda r: np.where(r.m == 1, "a", "b"))
    rows = rows[(rows.method == "a") | (rows.k == 1)]
    table = mean_and_deviation(rows, "k", "method", "v", digits=2)
    for method in "ab":
        for k in (1, 2):
            values = rows[(rows.method == method) & (rows.k == k)].v.to_numpy()
            deviation = f" ± {round(values.std(ddof=1), 2)}" if n_seeds > 1 and len(values) else ""
            assert table.loc[k, method] == (
                f"{round(values.mean(), 2)}{deviation}" if len(values) else ""
            )


@pytest.mark.parametrize("n_seeds", [1, 3])
def test_a_band_is_drawn_of_several_seeds_and_none_of_one(n_seeds):
    rows = ROWS[(ROWS.seed < n_seeds) & (ROWS.m == 1)]
    ax = Figure().subplots()
    METHODS.band(ax, rows, "k", "v", "uniform")
    assert len(ax.collections) == (n_seeds > 1)
    _, axes = METHODS.facets(
        rows.assign(method="uniform"), "k", "v", "m", ["uniform"], labels=("k", "v")
    )
    assert [len(one.collections) for one in axes.values()] == [n_seeds > 1]
    ax = Figure().subplots()
    draw_errors(ax, rows.assign(method="uniform", size=rows.k, error=rows.v))
    assert [container.has_yerr for container in ax.containers] == [n_seeds > 1]


# The images of the first were withdrawn; of SONG, that of the second, nobody states a checksum;
# of iCubWorld's frames, those of the third, we have no reader.
STAND_INS_ONLY = {
    "vcgmm/tab02_many_clusters",
    "vcgmm/figS2_more_data",
    "bico/fig02_imbalanced_stream",
}
# Parameters that name data for the sake of another profile, or of a picture.
ABOUT_OTHERS = ("show", "classes", "pca", "unchanged", "generated")


def test_profile_paper_takes_the_papers_data_and_no_stand_in():
    runs = {run.name: run for run in plan("paper")}
    for name in set(names()) - STAND_INS_ONLY:
        declared = papers_data(figure_entry(name))
        wanted = {one if isinstance(one, str) else one["name"] for one in declared}
        given = runs[name].parameters
        texts = set(_texts([value for key, value in given.items() if key not in ABOUT_OTHERS]))
        taken = texts & set(ENTRIES) if wanted else set()
        assert {one for one in taken if not {one, ENTRIES[one].of} & wanted} == set(), name
        assert not wanted or not any("patches" in text for text in texts), name


def _texts(value):
    """All texts in a value of a parameter."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
    return [value] if isinstance(value, str) else []
