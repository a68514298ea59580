"""A run of one seed: every item's claims are judged, and no interval is drawn."""

from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from handful_papers import style
from handful_papers.bico import continual_tables
from handful_papers.claims import BY_HAND, CANNOT_TELL, Run
from handful_papers.committed import FIGURES
from handful_papers.entries import ROOT, figure_entry, names
from handful_papers.parameters import NOTEBOOKS, cell_parameters
from handful_papers.records import read_record
from handful_papers.spread import deviation, half_interval
from handful_papers.vcgmm.own_mixtures import against_best, draw_against_best
from handful_papers.verdicts import judge_all

SEEDS = [1, 3]
# Numbers without noise are judged from one seed as from many.
WITHOUT_NOISE = ("each", "cases")


def rows_of_one_seed(name):
    """The quick numbers of an item's first seed, with what was run without a seed."""
    rows = pd.read_csv(
        ROOT / "tests" / "expected" / f"{name}.csv",
        keep_default_na=False,
        na_values=[""],
    )
    if "seed" not in rows:
        return rows
    first = rows.seed.isna() | (rows.seed == rows.seed.min())
    return rows[first].reset_index(drop=True)


@pytest.mark.parametrize("name", names())
def test_one_seed_is_judged_and_decides_nothing_that_has_noise(name):
    claims = figure_entry(name)["claim"]
    if not claims:
        return
    evidence = import_module(f"handful_papers.{name.replace('/', '.')}").evidence
    parameters = cell_parameters(NOTEBOOKS / f"{name}.ipynb")
    # What rows do not hold is as in the record, where there is one.
    record = FIGURES / "laptop" / f"{name}.json"
    facts = read_record(record)["facts"] if record.is_file() else {}
    data = tuple(parameters.get("datasets", ()))
    run = Run(rows_of_one_seed(name), parameters, facts, BY_HAND, data)
    for claim, judged in zip(claims, judge_all(claims, run, evidence)):
        noisy = not claim.rule.get("exact") and claim.rule.get("over") not in WITHOUT_NOISE
        if judged["seeds"] == 1 and noisy:
            assert judged["verdict"] == CANNOT_TELL, judged["why"]
            assert judged["low"] is None or np.isnan(judged["low"])


def has_interval(ax):
    """Whether some error bar or band of an axes has more than a point's height."""
    return any(one.has_xerr or one.has_yerr for one in ax.containers) or bool(ax.collections)


@pytest.mark.parametrize("n_seeds", SEEDS)
def test_error_bars_of_a_mean_are_those_of_a_loop_and_one_seed_has_none(n_seeds, rng):
    values = pd.DataFrame(rng.normal(size=(n_seeds, 2)), columns=["a", "b"])
    if n_seeds == 1:
        assert deviation(values) is None
        assert deviation(values.a) is None
        assert half_interval(values) is None
        assert half_interval(values.a) is None
        return
    for column, mine in values.items():
        centred = mine.to_numpy() - sum(mine) / n_seeds
        sd = (sum(centred**2) / (n_seeds - 1)) ** 0.5
        assert deviation(values)[column] == pytest.approx(sd)
        # Student's t with two degrees of freedom, from a table.
        assert half_interval(values)[column] == pytest.approx(4.302653 * sd / 3**0.5)
        assert half_interval(mine) == pytest.approx(half_interval(values)[column])


@pytest.mark.parametrize("n_seeds", SEEDS)
def test_figure_9_has_deviations_of_several_seeds_alone(n_seeds, rng):
    tasks = [(m, s, k) for m in ("uniform", "bico") for s in range(n_seeds) for k in (1, 2)]
    by_task = pd.DataFrame(tasks, columns=["method", "seed", "task"])
    by_task["accuracy"] = rng.uniform(90, 99, len(by_task))
    _, ax = style.figure()
    continual_tables.draw_tasks(ax, by_task, ("uniform", "bico"))
    assert has_interval(ax) == (n_seeds > 1)


@pytest.mark.parametrize("n_seeds", SEEDS)
def test_the_mixtures_have_standard_errors_of_several_seeds_alone(n_seeds, rng):
    runs = [(m, s) for m in ("kmeans++", "vcgmm") for s in range(n_seeds)]
    rows = pd.DataFrame(runs, columns=["method", "seed"]).assign(dataset="digits", setting="")
    rows["error"] = rng.uniform(1, 2, len(rows))
    rows["seconds"] = 1.0
    fig = draw_against_best(against_best(rows, ["kmeans++"]), {"digits": "Digits"})
    bars = [one.has_yerr for one in fig.axes[0].containers]
    assert bars == [n_seeds > 1] * 2


def test_a_continual_table_of_one_seed_has_no_error_bars_of_ours():
    index = pd.MultiIndex.from_tuples([("split", "bico"), ("split", "uniform")])
    table = pd.DataFrame(
        {"ours": [91.0, 90.0], "sd": np.nan, "paper": 92.0, "paper_sd": np.nan}, index
    )
    _, ax = style.figure()
    continual_tables.dot_plot([ax], table, ["bico", "uniform"], {"split": "Split"})
    assert not has_interval(ax)
