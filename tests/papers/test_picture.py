"""The reproduction in one picture: which of our numbers stands beside which printed one."""

import pandas as pd
import pytest
from handful_papers import picture, site
from handful_papers.entries import figure_entry, names
from handful_papers.published import beside, printed_values, published
from handful_papers.site import _claims_of, item_rows


def test_a_cell_is_the_mean_over_seeds_of_the_best_setting():
    how = dict(item="Table 4", row="{method}", column="{stream}", value="accuracy", best="beta")
    how["names"] = {"method": {"bico": "BiCo"}}
    rows = pd.DataFrame(
        [("bico", "PMNIST", beta, seed, 80 + beta + seed) for beta in (0, 3) for seed in (0, 2)]
        + [("not printed", "PMNIST", 0, 0, 9.0)],
        columns=["method", "stream", "beta", "seed", "accuracy"],
    )
    [cell] = beside("bico", [how], rows).itertuples()
    assert (cell.row, cell.ours, round(cell.ours_sd, 6), cell.value, cell.sd) == (
        "BiCo",
        84,
        1.414214,
        86.11,
        0.25,
    )


@pytest.mark.parametrize("name", [name for name in names() if "beside" in figure_entry(name)])
def test_what_is_declared_names_cells_that_the_paper_prints(name):
    """Every word of `names` that stands for a method, and every format, leads to a cell of the
    record."""
    row = next(row for row in item_rows()[0] if row["name"] == name)
    found = picture.ratios(row)
    cells = (found[:, 3] == 0).sum()
    assert cells >= 6
    assert ((found[:, 1] <= found[:, 0]) & (found[:, 0] <= found[:, 2])).all()
    for how in figure_entry(name)["beside"]:
        if "{" not in how["item"]:
            assert len(published(name.split("/")[0], how["item"])) >= 6


def test_what_was_run_of_a_paper_follows_from_the_record():
    record = {
        "item": "bico/fig10_active_learning",
        "level": {"kind": "part"},
        "reductions": ["n_seeds = 1 instead of 2"],
    }
    assert site.extents(record) == ("reduced", "reduced", "replaced")
    record = {"item": "vrm/fig02_blobs", "level": {"kind": "generated"}, "reductions": []}
    assert site.extents(record) == ("as printed",) * 3
    unknown = record | {"item": "bico/fig04_gmm_selection"}
    assert site.extents(unknown) == ("replaced", "as printed", "as printed")
    told = {figure_entry(name).get(key) for name in names() for key in ("data", "model")}
    assert told <= {None, *site.EXTENTS}


def claim(ours, paper, *, low=None, high=None, whose="paper"):
    ends = {"low": ours if low is None else low, "high": ours if high is None else high}
    return {"ours": ours, "paper": paper, "whose": whose, **ends}


def test_an_effect_of_either_sign_has_a_ratio_and_what_the_paper_does_not_print_has_none():
    claims = [
        claim(-1.0, -2.0, low=-3.0, high=1.0),
        claim(-1.0, 2.0),
        claim(0.0, 2.0),
        claim(3.0, 0),
        claim(3.0, 1),
        claim(3.0, "more"),
        claim(3.0, 2.0, whose="own"),
        claim(None, 2.0),
    ]
    row = {"name": "bico/fig01_penalty", "claims": claims, "record": {}}
    assert picture.ratios(row)[:, :3].tolist() == [[0.5, -0.5, 1.5], [-0.5, -0.5, -0.5], [0, 0, 0]]
    assert picture.n_missing(row) == 1


def test_every_printed_number_is_shown_or_counted_as_missing():
    """What is shown and what is counted make the numbers of published.csv, and the effects beside
    them."""
    rows = [row for row in item_rows()[0] if row["name"].startswith(("bico/", "vrm/", "vcgmm/"))]
    for row in rows:
        labels = [item["label"] for item in figure_entry(row["name"])["item"] if item["label"]]
        values = [
            value for label in labels for value in printed_values(row["name"].split("/")[0], label)
        ]
        effects = [c["paper"] for c in row["claims"] if picture._has_a_printed_number(c)]
        every = len([value for value in values if value not in effects]) + len(effects)
        assert len(picture.ratios(row)) + picture.n_missing(row) == every, row["name"]
    assert len(printed_values("bico", "Table 7")) == 18
    assert len(printed_values("bico", "Table 1")) == 20
    assert printed_values("vrm", "Figure 2 (right)") == [1.4]
    assert printed_values("svm", "Figure 1") == []


def test_labels_of_one_kind_share_its_word():
    assert picture._short(["Figure 8", "Table 1", "Table 2"]) == "Fig. 8, Tab. 1, 2"


def test_what_the_largest_run_left_out_is_that_of_the_next_smaller_one(tmp_path):
    def run(profile, **ours):
        judged = [{"id": name, "ours": value} for name, value in ours.items()]
        return tmp_path / f"{profile}.json", {"profile": profile, "claims": judged}

    runs = [
        run("paper", a=None, b=1.0, c=None, d=None),
        run("gpu", a=None, b=2.0, c=2.0, d=None),
        run("laptop", a=3.0, b=3.0, c=3.0, d=None),
    ]
    row = _claims_of(runs)
    assert [claim["ours"] for claim in row["claims"]] == [3.0, 1.0, 2.0, None]
    made = {name: record["profile"] for name, record in row["run_of"].items()}
    assert made == {"a": "laptop", "b": "paper", "c": "gpu", "d": "paper"}
    assert row["runs"] == runs
    # A run that gives no claim is not shown.
    alone = _claims_of([runs[0], run("laptop", a=None, b=3.0, c=None, d=None)])
    assert [path.stem for path, _ in alone["runs"]] == ["paper"]
