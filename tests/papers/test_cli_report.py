"""`handful report`, and what a misspelt name is told."""

import pytest
from handful import cli
from handful_papers import site, verification
from handful_papers.audit import audit
from handful_papers.committed import FIGURES
from handful_papers.records import read_record
from handful_papers.run import plan


def row(name, **more):
    """A row of `site.item_rows`, of a record that is as it should be."""
    return dict(name=name, record={"dirty": False}, stale="", unverified="", doubts=[]) | more


@pytest.fixture
def records(monkeypatch):
    """A function of rows, by which `handful report` goes from then on."""
    monkeypatch.setattr(site, "terminal", lambda profiles, only: "the table")
    monkeypatch.setattr("handful_papers.cli._judge_all_again", lambda profiles: [])

    def stand(*rows, refused=()):
        monkeypatch.setattr(site, "item_rows", lambda profiles: (list(rows), list(refused)))

    return stand


def test_the_table_has_a_head_and_the_rows_that_reproduce_would_run(capsys):
    assert cli.main(["report", "--only", "svm/*", "--only", "own/groups"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    wanted = [one.name for one in plan("laptop", ["svm/*", "own/groups"])]
    assert [line.split()[0] for line in lines[: len(wanted)]] == wanted
    assert lines[len(wanted)].startswith("Claims ")
    assert head.startswith("name ")
    for column, first in (("minutes", 35), ("data of the run; the paper's claims", 50)):
        assert head.index(column) == first
        assert all(line[first - 1] == " " != line[first] for line in lines[: len(wanted)])
    # the summary is of whole papers
    assert "The four papers' claims" not in "\n".join(lines)
    assert "The four papers' claims" in site.terminal().splitlines()[-1]


@pytest.mark.parametrize("option", ["--check", "--strict", "--judge"])
def test_what_is_of_all_records_is_refused_for_some(option, records, capsys):
    assert cli.main(["report", option, "--only", "svm/*"]) == 2
    assert "--only chooses rows of the table" in capsys.readouterr().err


def test_a_check_that_passes_says_of_how_many_records(records, capsys):
    absent = row("demo/absent", record=None)
    older = row("demo/older", doubts=[verification.OLDER])
    records(row("demo/one"), older, absent)
    assert cli.main(["report", "--check"]) == 0
    assert capsys.readouterr().out == (
        "the table\nCheck passed: of 2 records none was found refused, stale, unclean or "
        "changed since its run.\n"
    )
    records(row("demo/one"))
    assert cli.main(["report", "--strict"]) == 0
    assert capsys.readouterr().out.endswith("an audit by today's code where older code made it.\n")
    assert cli.main(["report"]) == 0
    assert capsys.readouterr().out == "the table\n"


@pytest.mark.parametrize(
    ("options", "faulty", "told"),
    [
        (["--check"], {"stale": "parameters n changed"}, "parameters n changed"),
        (["--check"], {"record": {"dirty": True}}, "made by code that is in no commit"),
        (
            ["--check"],
            {"unverified": "a.csv: not what the run left"},
            "a.csv: not what the run left",
        ),
        (["--strict"], {"doubts": [verification.OLDER]}, verification.OLDER),
        (["--check", "--strict"], {"doubts": ["not audited"]}, "not audited"),
    ],
)
def test_a_check_that_fails_names_what_is_wrong_a_line_each(options, faulty, told, records, capsys):
    records(row("demo/one"), row("demo/two", **faulty), refused=["demo.json is no record"])
    assert cli.main(["report", *options]) == 1
    assert capsys.readouterr().out == (
        f"the table\nwrong: demo.json is no record\nwrong: demo/two: {told}\n"
    )


@pytest.mark.parametrize(
    ("pattern", "near"),
    [
        ("svm/fig4", ": did you mean svm/fig04_sensitivities or "),
        ("tab8", ": did you mean bico/tab08_cost?"),
        ("hundredrows", ": did you mean own/hundred_rows?"),
        ("xyz", "."),
    ],
)
def test_a_pattern_that_matches_nothing_is_told_the_names_near_to_it(pattern, near, capsys):
    for command in ("reproduce", "report"):
        assert cli.main([command, "--only", pattern]) == 2
        told = capsys.readouterr().err
        assert f"no notebook matches {pattern!r}{near}" in told
        assert " There are: bico/fig01_penalty, " in told


def test_reasons_against_each_run_of_a_figure_are_told_under_its_profile(tmp_path, monkeypatch):
    runs = [(FIGURES / p / "bico/fig08_networks.json") for p in ("gpu", "laptop")]
    records = [read_record(path) for path in runs]
    found = [(tmp_path / profile, record) for profile, record in zip(("gpu", "laptop"), records)]
    monkeypatch.setattr(site, "records", lambda *_: (found, []))
    monkeypatch.setattr(site, "unverified", lambda path, record: f"{path.name} moved")
    monkeypatch.setattr(site, "doubts", lambda record: ["old"] if record is records[1] else [])
    (row,) = [row for row in site.item_rows()[0] if row["record"]]
    assert row["unverified"] == "gpu moved; at profile laptop: laptop moved"
    assert row["doubts"] == ["at profile laptop: old"]
    told = site.terminal().splitlines()
    wanted = f"unverified: {row['unverified']}; at profile laptop: old; "
    assert next(line for line in told if wanted in line).startswith("bico/fig08_networks ")
    assert "1 of them are unverified." in told
    # Quick runs test the code, which may have been edited since.
    assert "unverified" not in site.terminal(("quick",))


def test_the_order_of_the_profiles_asked_for_changes_nothing(capsys):
    said = []
    for order in (("gpu", "laptop"), ("laptop", "gpu")):
        options = [word for profile in order for word in ("--profile", profile)]
        assert cli.main(["report", *options]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    names = {one.name for profile in ("laptop", "gpu") for one in plan(profile)}
    assert f"{len(names)} of {len(names)} figures on record" in said[0]


def test_figures_that_do_not_run_at_a_profile_are_told_so(capsys):
    assert cli.main(["report", "--profile", "gpu", "--only", "fig06"]) == 2
    assert "none of these figures runs at profile gpu" in capsys.readouterr().err


def test_a_list_says_on_record_of_what_reproduce_would_leave_out(monkeypatch, capsys):
    asked = ["list", "--profile", "laptop", "--only", "svm/*"]
    states = []
    for current in (True, False):
        monkeypatch.setattr("handful_papers.run.is_current", lambda one, current=current: current)
        assert cli.main(asked) == 0
        states.append(capsys.readouterr().out)
    n_runs = len(plan("laptop", ["svm/*"]))
    assert states[0].count(" on record ") == states[1].count(" to run ") == n_runs
    assert cli.main(["list", "--profile", "gpu", "--only", "fig06"]) == 2
    assert "none of these figures runs at profile gpu" in capsys.readouterr().err


def test_what_an_audit_finds_at_any_profile_is_told(tmp_path, monkeypatch, capsys):
    for profile in ("gpu", "laptop"):
        path = tmp_path / profile / "bico" / "fig08_networks.json"
        path.parent.mkdir(parents=True)
        path.touch()

    def audited(path, run, share, minutes):
        if run.profile == "laptop":
            return "as on record", []
        raise ValueError("it is damaged")

    monkeypatch.setattr("handful_papers.audit._audited", audited)
    told = []
    found = audit(0.1, ["bico/fig08_networks"], tmp_path, tell=told.append)
    assert found == {"bico/fig08_networks": ["it is damaged"]}
    assert sorted(told) == [
        "bico/fig08_networks at profile gpu: it is damaged",
        "bico/fig08_networks at profile laptop: as on record",
    ]
