"""What a run leaves: record, figures, published numbers beside it, looks."""

import json
import subprocess
import sys
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from handful_papers import Experiment, claims, provenance, published, style
from handful_papers import record as record_module
from handful_papers import rejudge as rejudge_module
from handful_papers.bico import looks as bico
from handful_papers.check import REQUIRED
from handful_papers.claims import Claim
from handful_papers.looks import BASELINES, EXTENSION, Looks, look
from handful_papers.notebooks import Run, _differences, read_notebook
from handful_papers.record import ours_text
from handful_papers.redraw import drawing, redraw
from handful_papers.rejudge import rejudge
from handful_papers.svm import looks as svm
from handful_papers.vcgmm import looks as vcgmm
from handful_papers.verdicts import FAILS, HOLDS
from handful_papers.vrm import looks as vrm
from tiny_notebooks import PARAMETERS, profiles_for, write_checkout, write_notebook


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


@pytest.fixture
def one_claim(monkeypatch):
    """The demonstration makes one claim, "a"; call it to declare that anew."""

    def declare(**changes):
        own = dict(
            id="a", item="Figure 6", text="It works", whose="own", measured="accuracy over 80", unit="%", rule="above"
        )
        monkeypatch.setattr(claims, "declared", lambda paper, notebook: [Claim(**own | changes)])

    declare()
    return declare


def _experiment(**changes):
    return Experiment("bico/fig06_demo", **{"profile": "quick", "parameters": {"seed": 0, "sizes": [50]}} | changes)


def _figure(rows):
    fig, ax = style.figure()
    for method, frame in rows.groupby("method"):
        bico.METHODS.band(ax, frame, "m", "accuracy", method)
    return fig


# --- the record


def _evidence(run):
    return {"a": run.rows.groupby("seed").accuracy.mean().to_numpy() - run.parameters["limit"]}


def test_record_says_where_the_numbers_came_from(figures, rows, one_claim):
    experiment = _experiment(parameters={"seed": 0, "sizes": [50], "limit": 80})
    data = SimpleNamespace(name="phishing", sha256="ab" * 32)
    assert experiment.use(data, rows=500, instead_of="SVHN") is data
    experiment.fact(train_accuracy=np.float64(97.5))
    path = experiment.save(rows, _figure(rows), _evidence, caption="Median of 4 seeds.")
    assert path == figures / "quick" / "bico" / "fig06_demo.json"
    record = json.loads(path.read_text())
    assert set(REQUIRED) <= set(record)
    assert record["data"]["phishing"]["sha256"] == "ab" * 32
    assert record["data"]["phishing"]["instead_of"] == "SVHN"
    assert record["seeds"] == [0, 1, 2, 3]
    assert record["facts"] == {"train_accuracy": 97.5}
    assert record["versions"]["numpy"] == np.__version__
    assert record["captions"] == {"fig06_demo": "Median of 4 seeds."}
    (claim,) = record["claims"]
    assert claim["verdict"] == HOLDS
    assert claim["ours"] == pytest.approx(rows.accuracy.mean() - 80)
    assert 0 <= record["seconds"] < 600
    pd.testing.assert_frame_equal(pd.read_csv(path.with_suffix(".csv")), rows, rtol=1e-9)


def test_a_record_is_judged_again_from_its_rows_alone(figures, rows, one_claim, monkeypatch):
    path = _experiment(parameters={"limit": 80}).save(rows, evidence=_evidence)
    item = SimpleNamespace(evidence=_evidence)
    monkeypatch.setattr(rejudge_module.importlib, "import_module", lambda name: item)
    assert rejudge(path)
    one_claim(rule="below")
    assert not rejudge(path)
    assert not rejudge(path, write=True)
    assert rejudge(path)
    assert json.loads(path.read_text())["claims"][0]["verdict"] == FAILS


def test_a_difference_from_the_paper_is_named_where_it_stands():
    panels = [{"data": "a", "seeds": 5}, {"data": "b", "seeds": 3, "peers": ["x"]}]
    paper = [{"data": "a", "seeds": 50}, {"data": "b", "seeds": 3}]
    found = ["panels[0].seeds = 5 instead of 50", "panels[1].peers = ['x'] instead of None"]
    assert _differences("panels", panels, paper) == found
    assert _differences("panels", panels[:1], paper) == [f"panels = {panels[:1]} instead of {paper}"]
    assert _differences("panels", paper, paper) == []


def test_parameters_are_those_of_the_notebooks_cell_and_none_is_left_out(tmp_path, monkeypatch):
    write_checkout(tmp_path, profiles_for("demo/a") + '[not_protocol]\nnames = ["n_jobs"]\n')
    write_notebook(tmp_path, "demo/a", parameters=PARAMETERS + "n_jobs = 2\n")
    monkeypatch.chdir(tmp_path)
    experiment = Experiment("demo/a", {"profile": "laptop", "n": 5, "seed": 0, "n_jobs": 1, "other": 7})
    assert experiment.profile == "laptop"
    assert experiment.parameters == {"n": 5, "seed": 0, "n_jobs": 1}
    assert experiment.reductions == ["n = 5 instead of 10"]
    with pytest.raises(ValueError, match="seed of the parameters cell are not set"):
        Experiment("demo/a", {"profile": "laptop", "n": 5, "n_jobs": 1})
    with pytest.raises(ValueError, match="run the notebook from inside the checkout"):
        Experiment("demo/b", {"profile": "laptop"})


def test_seconds_count_tasks_that_were_finished_before(figures, monkeypatch):
    experiment = _experiment()
    monkeypatch.setattr(record_module, "sweep", lambda *_, **options: (options["folder"], 3600.0))
    folder = experiment.sweep(None, [{}])
    assert folder == figures / "quick" / "bico" / ".state" / "tasks" / "fig06_demo"
    assert 3600 <= experiment.seconds < 3660


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
    experiment.save(rows, {"": _figure(rows), "weights": _figure(rows)}, caption={"": "One.", "weights": "Two."})
    folder = figures / "quick" / "bico"
    assert (folder / "fig06_demo_weights.pdf").is_file()
    path = experiment.save(rows, _figure(rows))
    assert not (folder / "fig06_demo_weights.pdf").exists()
    assert json.loads(path.read_text())["figures"] == ["fig06_demo"]


def test_claims_table_shows_both_numbers(figures, rows, one_claim):
    one_claim(paper=2, unit="%", text="A rather " + "long " * 30 + "claim")
    experiment = _experiment(parameters={"limit": 80})
    experiment.save(rows, evidence=_evidence)
    table = experiment.claims_table()
    assert table.data.loc[0, "ours"].endswith(" %")
    assert table.data.loc[0, "paper"] == "2 %"
    assert "long " * 30 in table.to_html()
    for ours, spread, text in [
        (1.4234567, 0.0321, "1.423 ± 0.032"),
        (7.703, 4.21, "7.7 ± 4.2"),
        (-0.0935, 0.26, "-0.09 ± 0.26"),
        (12345.6, 321.0, "12,346 ± 321"),
        (91.25, 0.0, "91.25 ± 0"),
    ]:
        assert ours_text({"ours": ours, "spread": spread}) == text


def test_every_figure_has_a_caption(figures, rows):
    with pytest.raises(ValueError, match="need a caption each"):
        _experiment().save(rows, {"": _figure(rows), "b": _figure(rows)}, caption={"": "One."})
    with pytest.raises(ValueError, match="need a caption each"):
        _experiment().save(rows, {"": _figure(rows), "b": _figure(rows)}, caption="One for two.")


def test_what_cannot_be_read_in_a_figure_is_told_and_recorded(figures, rows):
    fig = _figure(rows)
    fig.axes[0].set_xlabel("tiny", fontsize=4)
    with pytest.warns(UserWarning, match="4 points high"):
        path = _experiment().save(rows, fig)
    assert json.loads(path.read_text())["unreadable"] == ["fig06_demo: 'tiny' is 4 points high, less than 6"]


# --- drawn again

FIGURE_CELL = """
fig, ax = figure()
for method, frame in rows.groupby("method"):
    METHODS.band(ax, frame, "m", "accuracy", method)
ax.set_ylim(top)
captions = {"": f"From {top} on."}
"""


def _drawing_notebook(root, figure_cell=FIGURE_CELL, figures="fig"):
    imports = "from handful_papers.style import figure\nfrom handful_papers.bico.looks import METHODS"
    save = f"exp.save(rows, {figures})"
    path = write_notebook(root, "bico/fig06_demo", imports, figure_cell, save, parameters='profile = "quick"\ntop = 80')
    content = json.loads(path.read_text())
    content["cells"][3]["metadata"]["tags"] = ["figure"]
    path.write_text(json.dumps(content))
    return read_notebook(path)


def test_a_figure_is_drawn_again_from_its_rows_alone(figures, rows, tmp_path):
    path = _experiment(parameters={"top": 80}).save(rows, style.figure()[0], caption="Blank.")
    blank, before = path.with_suffix(".png").read_bytes(), json.loads(path.read_text())
    run = Run(_drawing_notebook(tmp_path), "quick", {}, 1.0)
    assert redraw(path, run) == ["fig06_demo"]
    record, drawn = json.loads(path.read_text()), path.with_suffix(".png").read_bytes()
    assert drawn != blank
    assert record.pop("redrawn")["commit"] == provenance.commit()[0]
    assert record.pop("captions") == {"fig06_demo": "From 80 on."}
    assert record == {key: value for key, value in before.items() if key != "captions"}
    assert redraw(path, run) == []  # nothing new: the record stays as it is
    assert path.with_suffix(".png").read_bytes() == drawn


def test_a_figure_that_needs_more_than_rows_or_other_rows_is_left_alone(figures, rows, tmp_path):
    path = _experiment(parameters={"top": 80}).save(rows, style.figure()[0], caption="Blank.")
    before = path.read_bytes()
    needy = _drawing_notebook(tmp_path, FIGURE_CELL + "ax.plot(data)\n")
    assert drawing(needy).missing == ["data"]
    with pytest.raises(ValueError, match="read data, which no record holds"):
        redraw(path, Run(needy, "quick", {}, 1.0))
    other = _drawing_notebook(tmp_path, FIGURE_CELL.replace('"accuracy"', '"error"'))
    with pytest.raises(ValueError, match="run it again"):
        redraw(path, Run(other, "quick", {}, 1.0))
    assert path.read_bytes() == before


def test_only_figures_that_tagged_cells_make_are_drawn_again(tmp_path):
    notebook = _drawing_notebook(tmp_path, figures='{"": fig, "one_run": fig_open}')
    assert drawing(notebook).figures == {"": "fig"}
    assert drawing(notebook).rows == "rows"
    path = write_notebook(tmp_path, "bico/other", "fig = 1", "exp.save(rows, fig)")
    assert drawing(read_notebook(path)) is None


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
import handful, handful.cli, handful_papers
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# --- published numbers


def test_published_numbers_keep_their_units():
    table = published("bico", "Table 3")
    assert set(table["column"]) == {"PMNIST", "SMNIST", "SCIFAR-10"}
    assert table.set_index(["row", "column"]).value["BiCo", "PMNIST"] == 79.33
    seconds = published("vcgmm", "Table 2").set_index(["row", "column"]).value
    assert seconds["C=8192", "EM"] == 26 * 60 + 32  # printed 26:32
    assert set(published("bico", "Table 7")["item"]) == {
        "Table 7 (Spoken Digit)",
        "Table 7 (Speech Commands)",
    }


def test_a_published_bound_is_marked_as_one():
    table = published("vcgmm", "Table 1")
    assert (table["bound"] == "<").sum() == 2  # "<1" is printed twice
    assert set(table.loc[table["bound"] == "<", "value"]) == {1.0}


def test_unknown_published_numbers_name_the_known_ones():
    with pytest.raises(KeyError, match="Table 1"):
        published("bico", "Table 99")


# --- looks


def _all_looks():
    return [bico.METHODS, svm.METHODS, vrm.METHODS, vcgmm.METHODS]


def test_no_two_methods_of_one_figure_look_alike_in_grey():
    families = [
        (bico, ["full", "uniform", "kmeans++", "sensitivity", "bico", "bico weighted"]),
        (
            bico,
            ["full", "uniform", "kmeans++", "bico batches", "bico exchange", "bico elimination", "bico regularised"],
        ),
        (bico, ["bico quadratic", "bico robust", "bico weighted quadratic"]),
        (bico, ["uniform", "max-entropy", "kcenter", "consistency", "badge", "bico"]),
        (svm, ["full", "uniform", "svm paper", "svm tight", "svm mixture"]),
        (vrm, ["uniform", "equal mixture", "vrb", "vrm"]),
        (vcgmm, ["kmeans++", "afkmc2", "lwcs", "vargmm", "vcgmm"]),
    ]
    for paper, keys in families:
        looks = [(paper.METHODS[k]["marker"], str(paper.METHODS[k]["ls"])) for k in keys]
        assert len(set(looks)) == len(looks), keys


def test_extensions_say_so_and_share_a_hue_that_no_reproduced_method_has():
    for methods in _all_looks():
        for one in methods.values():
            assert (one["color"] == EXTENSION) == ("(extension)" in one["label"]), one["label"]


def test_baselines_are_grey_and_below():
    for one in BASELINES.values():
        color = one["color"]
        assert color[1:3] == color[3:5] == color[5:7]
        assert one["zorder"] < bico.METHODS["bico"]["zorder"]


def test_a_look_is_given_once_and_asked_for_by_name():
    with pytest.raises(ValueError, match="uniform has a look already"):
        Looks(BASELINES, {"uniform": look("Uniform", "#000000", "o", ":")})
    assert bico.METHODS.style("uniform", ls="-")["ls"] == "-"
    with pytest.raises(KeyError, match="has no look"):
        bico.METHODS.style("no such method")


def test_band_is_median_and_quartiles(rows):
    _, ax = style.figure()
    frame = rows[rows.method == "uniform"]
    line = bico.METHODS.band(ax, frame, "m", "accuracy", "uniform")
    np.testing.assert_allclose(line.get_ydata(), frame.groupby("m")["accuracy"].median())
    at_50 = frame.loc[frame.m == 50, "accuracy"]
    corners = ax.collections[0].get_paths()[0].vertices
    ys = corners[corners[:, 0] == 50, 1]
    np.testing.assert_allclose([ys.min(), ys.max()], np.quantile(at_50, [0.25, 0.75]))
