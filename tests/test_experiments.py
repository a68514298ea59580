"""Results, claims, verdicts, published numbers and the figures' style."""

import json
import subprocess
import sys
from itertools import pairwise
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from handful.experiments import (
    METHODS,
    VERDICTS,
    Experiment,
    Verdict,
    judge,
    mean_sd,
    method_style,
    paired_differences,
    provenance,
    published,
    published_value,
    register_method,
    results,
    style,
    verdict,
    verdict_everywhere,
    verdict_near,
)

HOLDS, WEAKER, FAILS, NOT_TESTED = VERDICTS


@pytest.fixture(autouse=True)
def _no_open_figures():
    yield
    plt.close("all")


@pytest.fixture
def figures(tmp_path, monkeypatch):
    monkeypatch.setenv("HANDFUL_FIGURES", str(tmp_path / "figures"))
    return tmp_path / "figures"


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        [
            {"method": method, "m": m, "seed": seed, "accuracy": 90 + m / 100 + rng.normal()}
            for method in ("uniform", "bico weighted")
            for m in (50, 100, 200)
            for seed in range(4)
        ]
    )


def _experiment(**changes):
    return Experiment("bico/fig06_demo", **{"profile": "quick", "parameters": {"seed": 0, "sizes": [50]}} | changes)


def _figure(rows):
    fig, ax = style.figure()
    for method, frame in rows.groupby("method"):
        style.plot_band(ax, frame, "m", "accuracy", method)
    style.label_lines(ax)
    return fig


# --- verdicts


@pytest.mark.parametrize(
    ("ours", "options", "expected"),
    [
        (2.0, {}, HOLDS),
        (1.9, {}, FAILS),
        (1.9, {"weaker": 1.5}, WEAKER),
        (1.4, {"weaker": 1.5}, FAILS),
        ([1.0, 3.0], {}, HOLDS),  # the mean counts
        (2.0, {"direction": "<="}, HOLDS),
        (2.1, {"direction": "<="}, FAILS),
        (2.1, {"direction": "<=", "weaker": 2.5}, WEAKER),
        (2.6, {"direction": "<=", "weaker": 2.5}, FAILS),
        (None, {"tested": False}, NOT_TESTED),
    ],
)
def test_verdict_compares_the_mean_with_the_target(ours, options, expected):
    assert verdict(ours, 2.0, **options) == expected


@pytest.mark.parametrize(
    ("ours", "options"),
    [(np.nan, {}), ([], {}), (None, {}), (1, {"weaker": 3}), (1, {"weaker": 2}), (1, {"direction": ">"})],
)
def test_verdict_refuses_what_it_cannot_compare(ours, options):
    with pytest.raises((ValueError, TypeError)):
        verdict(ours, 2.0, **options)


def test_verdict_near_looks_at_the_distance_on_both_sides():
    assert verdict_near(91.4, 91.0, within=0.5) == HOLDS
    assert verdict_near(90.6, 91.0, within=0.5) == HOLDS
    assert verdict_near(92.0, 91.0, within=0.5, weaker=1.5) == WEAKER
    assert verdict_near(94.0, 91.0, within=0.5, weaker=1.5) == FAILS
    assert verdict_near(None, 91.0, within=0.5, tested=False) == NOT_TESTED


def test_everywhere_holds_only_if_every_mean_is_at_or_above():
    assert verdict_everywhere({50: [1.0, 2.0], 100: [0.0, 0.0]}) == HOLDS
    # 100 is below by less than its noise, the settings together are above
    noisy = verdict_everywhere({50: [1.0, 2.0, 1.5], 100: [-1.0, 0.9, -0.2]})
    assert noisy == WEAKER
    assert "1 of 2 settings" in noisy.why
    # 100 is below in every seed by about the same
    assert verdict_everywhere({50: [9.0, 9.0, 9.0], 100: [-1.0, -1.01, -0.99]}) == FAILS
    # noise in one setting does not excuse being below on the whole
    assert verdict_everywhere({50: [-3.0, 2.0, -1.0], 100: [0.1, 0.1, 0.1]}) == FAILS
    assert verdict_everywhere({}, tested=False) == NOT_TESTED


def test_everywhere_gives_a_single_seed_no_benefit_of_noise():
    assert verdict_everywhere({50: [5.0], 100: [-0.1]}) == FAILS
    assert verdict_everywhere({50: [5.0], 100: [-0.1]}, margin=0.2) == HOLDS


def test_everywhere_rarely_condemns_a_method_that_is_equal_everywhere():
    rng = np.random.default_rng(1)
    draws = [verdict_everywhere({k: rng.normal(size=5) for k in range(20)}, margin=0) for _ in range(300)]
    means = [verdict_everywhere({k: rng.normal(0.3, 1, size=5) for k in range(20)}) for _ in range(300)]
    assert draws.count(HOLDS) < 10  # 20 coins do not all fall the same way
    # A method that is better by 0.3 on average is called clearly worse somewhere in at most alpha of the runs
    # (5 %, so 15 of 300 expected at most; 30 is four standard errors above).
    assert means.count(FAILS) < 30


def test_judge_wants_computed_flags_and_a_reason():
    assert judge(True, why="2 > 1") == HOLDS
    assert judge(np.bool_(False), weaker=True, why="...") == WEAKER
    assert judge(False, why="1 > 2") == FAILS
    assert judge(False, tested=False, why="no GPU") == NOT_TESTED
    with pytest.raises(TypeError, match="bool"):
        judge("holds", why="because")
    with pytest.raises(ValueError, match="why"):
        judge(True, why="")


def test_paired_differences_pair_by_seed(rows):
    found = paired_differences(rows, a="bico weighted", b="uniform", value="accuracy", by="m")
    assert list(found) == [("uniform", 50), ("uniform", 100), ("uniform", 200)]
    wide = rows.set_index(["method", "m", "seed"])["accuracy"]
    expected = [wide["bico weighted", 100, s] - wide["uniform", 100, s] for s in range(4)]
    np.testing.assert_allclose(found["uniform", 100], expected)
    flipped = paired_differences(
        rows, a="bico weighted", b=["uniform"], value="accuracy", by=["m"], higher_is_better=False
    )
    np.testing.assert_allclose(flipped["uniform", 100], -np.array(expected))


def test_paired_differences_refuse_rows_that_do_not_pair(rows):
    with pytest.raises(ValueError, match="cannot be paired"):
        paired_differences(rows.iloc[1:], a="bico weighted", b="uniform", value="accuracy", by="m")
    with pytest.raises(ValueError, match="more than one row"):
        paired_differences(pd.concat([rows, rows]), a="bico weighted", b="uniform", value="accuracy", by="m")
    with pytest.raises(ValueError, match="no rows for 'kcenter'"):
        paired_differences(rows, a="bico weighted", b="kcenter", value="accuracy", by="m")


def test_mean_sd_has_no_spread_for_one_seed():
    assert mean_sd([1.0, 3.0]) == (2.0, pytest.approx(2**0.5))
    assert mean_sd([1.0]) == (1.0, None)


# --- the record


def test_record_says_where_the_numbers_came_from(figures, rows):
    experiment = _experiment()
    data = SimpleNamespace(name="phishing", sha256="ab" * 32)
    assert experiment.use(data) is data
    experiment.reduce("4 seeds instead of 10")
    mean, sd = mean_sd(rows["accuracy"])
    experiment.claim("a", "It works", paper=92, ours=mean, spread=sd, unit="%", verdict=verdict(mean, 80))
    path = experiment.save(rows, _figure(rows), caption="Median of 4 seeds.")
    assert path == figures / "quick" / "bico" / "fig06_demo.json"
    record = json.loads(path.read_text())
    assert {
        "item", "profile", "parameters", "seeds", "versions", "commit", "dirty", "data", "seconds", "threads",
        "machine", "reductions", "figures", "caption", "claims",
    } == set(record)  # fmt: skip
    assert record["data"] == {"phishing": "ab" * 32}
    assert record["seeds"] == [0, 1, 2, 3]
    assert record["reductions"] == ["4 seeds instead of 10"]
    assert record["versions"]["numpy"] == np.__version__
    assert record["claims"][0]["verdict"] == HOLDS
    assert record["claims"][0]["ours"] == pytest.approx(mean)
    assert 0 <= record["seconds"] < 600
    pd.testing.assert_frame_equal(pd.read_csv(path.with_suffix(".csv")), rows, rtol=1e-9)


def test_same_run_writes_the_same_bytes(figures, rows, monkeypatch):
    written = []
    for folder in ("one", "two"):
        monkeypatch.setenv("HANDFUL_FIGURES", str(figures / folder))
        path = _experiment().save(rows, _figure(rows))
        written.append([path.with_suffix(s).read_bytes() for s in (".csv", ".png", ".pdf")])
    assert written[0] == written[1]
    assert b"Software" not in written[0][1]
    assert b"CreationDate" not in written[0][2]


def test_several_figures_go_by_their_keys_and_old_ones_go_away(figures, rows):
    experiment = _experiment()
    experiment.save(rows, {"": _figure(rows), "weights": _figure(rows)})
    folder = figures / "quick" / "bico"
    assert (folder / "fig06_demo_weights.pdf").is_file()
    path = experiment.save(rows, _figure(rows))
    assert not (folder / "fig06_demo_weights.pdf").exists()
    assert json.loads(path.read_text())["figures"] == ["fig06_demo"]


def test_a_claim_takes_no_typed_verdict(figures):
    experiment = _experiment()
    with pytest.raises(TypeError, match="computed"):
        experiment.claim("a", "It works", paper=1, ours=1, verdict="holds")
    with pytest.raises(ValueError, match="a verdict is one of"):
        Verdict("surely", "because")


def test_a_claim_is_stated_once_and_in_finite_numbers(figures):
    experiment = _experiment()
    experiment.claim("a", "It works", paper=1, ours=1, verdict=verdict(1, 1))
    with pytest.raises(ValueError, match="already"):
        experiment.claim("a", "Again", paper=1, ours=1, verdict=verdict(1, 1))
    with pytest.raises(ValueError, match="not finite"):
        experiment.claim("b", "NaN", paper=1, ours=np.nan, verdict=verdict(1, 1))


def test_claims_table_shows_both_numbers(figures):
    experiment = _experiment()
    text, below = "A rather " + "long " * 30 + "claim", verdict(1.42, 2, direction="<=")
    experiment.claim("a", text, paper=2, ours=1.4234567, spread=0.0321, unit="%", verdict=below)
    table = experiment.claims_table()
    assert table.data.loc[0, "ours"] == "1.423 ± 0.032 %"
    assert table.data.loc[0, "paper"] == "2 %"
    for ours, spread, text in [
        (7.703, 4.21, "7.7 ± 4.2"),
        (-0.0935, 0.26, "-0.09 ± 0.26"),
        (12345.6, 321.0, "12,346 ± 321"),
    ]:
        assert results.ours_text({"ours": ours, "spread": spread}) == text
    assert results.ours_text({"ours": 91.25, "spread": 0.0}) == "91.25 ± 0"
    assert "long " * 30 in table.to_html()


@pytest.mark.parametrize(
    "changes", [{"profile": "fast"}, {"name": "fig06"}, {"name": "bico/../x"}, {"name": "bico/fig 6"}]
)
def test_misnamed_experiments_are_refused(changes):
    arguments = {"name": "bico/fig06", "profile": "quick", "parameters": {}} | changes
    with pytest.raises(ValueError, match=r"profile must be|named <paper>/<notebook>"):
        Experiment(arguments.pop("name"), **arguments)


def test_no_rows_is_an_error(figures):
    with pytest.raises(ValueError, match="no rows"):
        _experiment().save([])


def test_results_go_to_the_checkout_from_within_its_folders(tmp_path, monkeypatch):
    monkeypatch.delenv("HANDFUL_FIGURES", raising=False)
    inner = tmp_path / "notebooks" / "bico"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert provenance.output_root() == inner / "figures"
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "handful"\n')
    (tmp_path / "notebooks" / "pyproject.toml").write_text('[project]\nname = "other"\n')
    assert provenance.output_root() == tmp_path / "figures"


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "record.json"
    provenance.write_atomically(path, "old")

    def full_disk(*_):
        raise OSError("no space left")

    monkeypatch.setattr(provenance.os, "replace", full_disk)
    with pytest.raises(OSError, match="no space"):
        provenance.write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_importing_handful_needs_no_plotting_or_notebook_packages():
    blocked = ["pandas", "matplotlib", "seaborn", "papermill", "nbconvert", "IPython", "torch", "jinja2"]
    code = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
import handful, handful.cli, handful.experiments
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# --- published numbers


def test_published_numbers_keep_their_units():
    table = published("bico", "Table 3")
    assert set(table["column"]) == {"PMNIST", "SMNIST", "SCIFAR-10"}
    assert published_value("bico", "Table 3", "BiCo", "PMNIST") == 79.33
    assert published_value("vcgmm", "Table 2", "C=8192", "EM") == 26 * 60 + 32  # printed 26:32
    assert set(published("bico", "Table 7")["item"]) == {
        "Table 7 (Spoken Digit)",
        "Table 7 (Speech Commands)",
    }


def test_a_published_bound_is_marked_as_one():
    table = published("vcgmm", "Table 1")
    assert (table["bound"] == "<").sum() == 2  # "<1" is printed twice
    assert set(table.loc[table["bound"] == "<", "value"]) == {1.0}


def test_unknown_published_numbers_name_the_known_ones():
    with pytest.raises(KeyError, match="bico Table 1"):
        published("bico", "Table 99")
    with pytest.raises(KeyError, match="PMNIST"):
        published_value("bico", "Table 3", "BiCo", "MNIST")


# --- style


def test_no_two_methods_of_one_figure_look_alike():
    families = [
        ["full", "uniform", "kmeans++", "kcenter", "sensitivity", "bico", "bico robust", "bico quadratic",
         "bico weighted", "bico weighted quadratic"],
        ["full", "uniform", "svm paper", "svm tight", "svm mixture"],
        ["uniform", "equal mixture", "vrb", "vrm"],
        ["kmeans++", "afkmc2", "lwcs", "vargmm", "vcgmm"],
    ]  # fmt: skip
    for family in families:
        looks = [(METHODS[k]["marker"], str(METHODS[k]["ls"])) for k in family]
        assert len(set(looks)) == len(looks), family  # in grey, marker and dash must do


def test_baselines_are_grey_and_ours_on_top():
    for key in ("uniform", "kmeans++", "kcenter", "sensitivity"):
        color = METHODS[key]["color"]
        assert color[1:3] == color[3:5] == color[5:7]
        assert METHODS[key]["zorder"] < METHODS["bico"]["zorder"] <= METHODS["bico weighted"]["zorder"]


def test_a_method_is_registered_once(monkeypatch):
    monkeypatch.setattr(style, "METHODS", dict(METHODS))
    with pytest.raises(ValueError, match="registered already"):
        register_method("uniform", "Uniform", "#777777", "o", ":")
    register_method("new", "New", "#000000", "X", "-")
    assert style.method_style("new", ls=":")["ls"] == ":"
    with pytest.raises(KeyError, match="has no style"):
        method_style("no such method")


def test_band_is_median_and_quartiles(rows):
    _, ax = style.figure()
    frame = rows[rows.method == "uniform"]
    line = style.plot_band(ax, frame, "m", "accuracy", "uniform")
    np.testing.assert_allclose(line.get_ydata(), frame.groupby("m")["accuracy"].median())
    at_50 = frame.loc[frame.m == 50, "accuracy"]
    corners = ax.collections[0].get_paths()[0].vertices
    ys = corners[corners[:, 0] == 50, 1]
    np.testing.assert_allclose([ys.min(), ys.max()], np.quantile(at_50, [0.25, 0.75]))


def test_line_labels_do_not_touch():
    _, ax = style.figure()
    keys = ["uniform", "bico", "bico quadratic", "bico weighted"]
    for i, key in enumerate(keys):
        ax.plot([0, 1], [0, 1 + 0.001 * i], **method_style(key))
    labels = style.label_lines(ax)
    boxes = sorted((label.get_window_extent() for label in labels), key=lambda b: b.y0)
    assert len(boxes) == 4
    assert all(lower.y1 <= upper.y0 for lower, upper in pairwise(boxes))
    assert [label.get_text() for label in labels] == [METHODS[key]["label"] for key in keys]  # as the lines end


def test_labels_that_cannot_fit_become_a_legend():
    _, ax = style.figure(1.5, 0.4)
    for i in range(12):
        ax.plot([0, 1], [i, i], label=f"line {i}")
    assert style.label_lines(ax) is ax.get_legend()
