"""The report and the README's table, from records written for the purpose; the catalogue of all items."""

import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from handful.experiments import VERDICTS, Experiment, published, verdict
from handful.experiments.gather import agree, catalogue, claims, collect
from handful.experiments.readme import BEGIN, END, check_readme, readme_table, update_readme
from handful.experiments.report import build_report
from handful.experiments.style import figure
from tiny_notebooks import cell

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _no_open_figures():
    yield
    plt.close("all")


def _leave(profile, ours, *, tested=True, text="Weighted <b>BiCo</b> needs < 2 % of the data"):
    experiment = Experiment("bico/fig06_binary_logistic", profile=profile, parameters={"sizes": [50], "seed": 0})
    experiment.reduce(f"what {profile} leaves out")
    experiment.claim(
        "bico-fig06-weighted", text, paper=2, ours=ours, spread=0.1, unit="%",
        verdict=verdict(ours, 2, direction="<=", weaker=3, tested=tested),
    )  # fmt: skip
    fig, ax = figure()
    ax.plot([1, 2], [3, 4])
    experiment.save(pd.DataFrame([{"method": "bico", "seed": 0, "share": ours}]), fig, caption="One line.")


def _notebook(figures, profile, name):
    path = figures / "notebooks" / profile / f"{name}.ipynb"
    path.parent.mkdir(parents=True)
    remote = {
        "output_type": "display_data",
        "metadata": {},
        "data": {
            "text/html": '<script src="https://cdn.example/x.js"></script><link rel="stylesheet" href="http://y">'
        },
    }
    run = cell("1 + 1") | {"execution_count": 1, "outputs": [remote]}
    title = cell("# Figure 6\n\nSee [the paper](https://example.org/paper) and $x^2$.", kind="markdown")
    path.write_text(json.dumps({"cells": [title, run], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}))


@pytest.fixture
def figures(tmp_path, monkeypatch):
    folder = tmp_path / "figures"
    monkeypatch.setenv("HANDFUL_FIGURES", str(folder))
    _leave("quick", 2.5)
    _leave("laptop", 1.42)
    _notebook(folder, "laptop", "bico/fig06_binary_logistic")
    _notebook(folder, "quick", "demo/bad")
    state = folder / "quick" / "demo" / ".state" / "bad.json"
    state.parent.mkdir(parents=True)
    error = {"cell": 5, "source": "deep()", "error": "ZeroDivisionError: no", "traceback": "----> 1 deep()"}
    state.write_text(json.dumps({"status": "failed", "seconds": 30, "error": error}))
    return folder


class _Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.fetched, self.links, self.ids, self.text, self.stack = [], [], [], [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag not in {"meta", "img", "br", "link", "input"}:
            self.stack.append(tag)
        if tag in {"script", "img", "iframe", "source", "embed"} and "src" in attributes:
            self.fetched.append(attributes["src"])
        if tag in {"link", "base"}:
            self.fetched.append(attributes.get("href"))
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        if "id" in attributes:
            self.ids.append(attributes["id"])

    def handle_endtag(self, tag):
        if tag in self.stack:
            while self.stack.pop() != tag:
                pass

    def handle_data(self, data):
        if not {"style", "script"} & set(self.stack):
            self.text.append(data)

    @property
    def words(self):
        return re.sub(r"\s+", " ", " ".join(self.text))


def test_the_site_opens_from_the_file_system_without_a_network(figures):
    index = build_report(figures)
    assert index == figures / "index.html"
    pages = [index, *figures.glob("notebooks/*/*/*.html")]
    assert len(pages) == 3
    for path in pages:
        source, page = path.read_text(encoding="utf-8"), _Page(path)
        assert not re.search(r"(@import|url\()\s*['\"]?(https?:)?//", source)
        for reference in page.fetched:
            assert reference.startswith("data:") or not re.match(r"\w+:|//", reference), reference
        for link in [*page.fetched, *page.links]:
            if link.startswith(("https:", "data:")):
                continue  # a reference to the paper is for the reader to follow
            target, _, fragment = unquote(link).partition("#")
            file = (path.parent / target).resolve() if target else path
            assert file.is_file(), link
            assert not fragment or fragment in _Page(file).ids, link


def test_the_page_sets_both_numbers_side_by_side(figures):
    words = _Page(build_report(figures)).words
    for part in (
        "1 of 40 tables and figures recomputed, 1 of them on the papers' own data",
        "Weighted <b>BiCo</b> needs < 2 % of the data",  # escaped, as it was written
        "1.42 is at most 2",
        "2 % 1.42 ± 0.10 % holds quick: holds weaker laptop 1 seed",
        "Reduced at this profile: what laptop leaves out",
        "One line.",
        "1 notebook failed demo/bad at profile quick, cell 5: ZeroDivisionError: no",
        "----> 1 deep()",
    ):
        assert part in words, part


def test_our_own_claims_are_counted_apart_from_the_papers(figures):
    experiment = Experiment("bico/tab08_cost", profile="laptop", parameters={})
    for id, paper, own in (("a", "", None), ("b", "all", True), ("c", "all", None)):
        experiment.claim(id, "A control", paper=paper, ours=3, verdict=verdict(3, 4), own=own)
    experiment.save(pd.DataFrame([{"method": "bico", "seed": 0}]))
    words = _Page(build_report(figures)).words
    assert "1 of the papers' claims holds 1 of the papers' claims does not hold" in words
    assert "Of our own claims, about our variants and controls: 2 do not hold." in words
    assert words.count("A control ours 3 is below 4") == 2
    assert words.count("A control 3 is below 4") == 1


def test_what_is_missing_is_listed_as_such(figures):
    page = build_report(figures).read_text()
    missing = page[page.index('id="missing"') :]
    listed = re.findall(r"<li><b>(.*?)</b>", missing)
    assert len(listed) == len([i for p in catalogue() for i in p.items]) - 1
    assert "Binary logistic regression" not in missing


def test_an_empty_folder_gives_a_page_that_says_what_to_do(tmp_path):
    words = _Page(build_report(tmp_path / "none")).words
    assert "No results yet." in words
    assert "0 of 40" in words


def test_a_claim_stands_at_the_largest_profile_that_tested_it(figures):
    _leave("paper", 9.9, tested=False)
    (claim,) = claims(collect(figures))
    assert (claim.result.profile, claim.verdict) == ("laptop", "holds")
    assert claim.elsewhere == [("quick", "holds weaker")]


def test_a_record_that_cannot_be_read_is_named(figures):
    broken = figures / "quick" / "bico" / "broken.json"
    broken.write_text("{")
    with pytest.raises(ValueError, match=r"broken\.json is not a record"):
        build_report(figures)


def test_building_twice_gives_the_same_page_and_renders_no_notebook_again(figures):
    first = build_report(figures).read_bytes()
    page = figures / "notebooks" / "laptop" / "bico" / "fig06_binary_logistic.html"
    written = page.stat().st_mtime_ns
    assert build_report(figures).read_bytes() == first
    assert page.stat().st_mtime_ns == written


# --- the catalogue


def test_the_catalogue_has_the_forty_items_of_the_four_papers():
    labels = {paper.key: {i.item for i in paper.items if i.item} for paper in catalogue()}
    counts = {key: Counter(label.split()[0] for label in found) for key, found in labels.items()}
    assert counts == {
        "bico": {"Figure": 13, "Table": 10},
        "svm": {"Figure": 5, "Table": 1},
        "vrm": {"Figure": 3, "Table": 1},  # its Figure 1 is a protocol in words
        "vcgmm": {"Figure": 4, "Table": 3},
    }
    for paper in catalogue():
        parts = [(i.item, i.title) for i in paper.items]
        assert len(set(parts)) == len(parts)


@pytest.mark.parametrize("paper", ["bico", "vrm", "vcgmm"])
def test_every_published_number_belongs_to_an_item_of_the_catalogue(paper):
    from handful.experiments.published import _rows

    items = {i.item for p in catalogue() if p.key == paper for i in p.items}
    printed = {r["item"] for r in _rows() if r["paper"] == paper}
    assert printed
    for item in printed:
        assert re.match(r"\w+ [\w.]+", item).group() in items
        assert len(published(paper, item))


# --- the README's table


def test_the_readme_table_shows_the_committed_profiles_only(figures):
    table = readme_table(figures=figures)
    row = next(line for line in table.splitlines() if "fig06_binary_logistic" in line)
    assert "[fig06_binary_logistic](notebooks/bico/fig06_binary_logistic.ipynb)" in row
    assert "| 1.42 ± 0.10 % | 2 % | holds |" in row
    assert "(laptop)" in row
    assert table.count("| not yet |") == sum(not i.notebook for p in catalogue() for i in p.items)
    quick = readme_table(("quick",), figures=figures)
    assert "| 2.50 ± 0.10 % | 2 % | holds weaker |" in quick


def test_verdicts_agree_with_their_number():
    assert [agree(v, 1) for v in VERDICTS] == list(VERDICTS)
    assert [agree(v, 2) for v in VERDICTS] == ["hold", "hold weaker", "do not hold", "not tested at this profile"]


def test_the_readme_is_written_between_its_markers(figures, tmp_path):
    path = tmp_path / "README.md"
    path.write_text(f"before\n{BEGIN}\nstale text\n{END}\nafter\n")
    assert not check_readme(path, figures=figures)
    assert "stale text" in path.read_text()
    assert not check_readme(path, figures=figures, write=True)
    assert check_readme(path, figures=figures)
    text = path.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "stale text" not in text


def test_a_readme_without_markers_is_an_error():
    with pytest.raises(ValueError, match="results: begin"):
        update_readme("no markers", "table")


def test_the_readme_holds_what_the_records_give():
    assert check_readme(ROOT / "README.md", figures=ROOT / "figures"), "run: handful readme --write"
