"""The report and the README's table, from records written for the purpose; the catalogue of all items."""

import base64
import json
import re
from collections import Counter
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qsl, unquote

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from handful_papers import Experiment, published
from handful_papers import claims as claims_module
from handful_papers.catalogue import catalogue
from handful_papers.claims import Claim, Evidence
from handful_papers.gather import agree, claims, collect, damaged
from handful_papers.notebooks import plan
from handful_papers.readme import check_index, items_section
from handful_papers.report import _in_ranges, _judged, build_report
from handful_papers.style import figure
from handful_papers.verdicts import VERDICTS
from tiny_notebooks import cell

ROOT = Path(__file__).resolve().parents[2]
MARKDOWN = r"""# Figure 6

See [the paper](https://example.org/paper) and $x^2 < \beta$.

$$\sum_i w_i \le 1$$

[a trap](javascript:steal()) <a href="data:text/html,x">another</a> ![far away](https://example.org/track.png)
<img src="//example.org/track.png"> <iframe src="https://example.org"></iframe> <script>steal()</script>
"""
TEXT = "Weighted <b>BiCo</b> needs < 2 % of the data"


@pytest.fixture(autouse=True)
def _no_open_figures():
    yield
    plt.close("all")


def _save(name, profile, claims, evidence, monkeypatch, fig=None, **options):
    """Leave a record with these claims; evidence: id -> Evidence."""
    monkeypatch.setattr(claims_module, "declared", lambda paper, notebook: claims)
    experiment = Experiment(name, profile=profile, parameters={"sizes": [50], "seed": 0})
    experiment.reductions = [f"what {profile} leaves out"]
    experiment.save(pd.DataFrame([{"method": "bico", "seed": 0}]), fig, lambda run: evidence, **options)


def _leave(profile, ours, monkeypatch, *, lacks=""):
    claim = Claim(
        id="bico-fig06-weighted", item="Figure 6", text=TEXT, whose="paper", quote="less than 2%", where="Section 5",
        paper=2, unit="%", measured="largest share needed", rule="below", numbers={"limit": 2, "weaker_limit": 3},
    )  # fmt: skip
    evidence = Evidence(lacks=lacks) if lacks else Evidence({"": [ours - 0.1, ours, ours + 0.1]})
    fig, ax = figure()
    ax.plot([1, 2], [3, 4])
    name = "bico/fig06_binary_logistic"
    _save(name, profile, [claim], {claim.id: evidence}, monkeypatch, fig, caption="One line.")


def _notebook(figures, profile, name):
    path = figures / "notebooks" / profile / f"{name}.ipynb"
    path.parent.mkdir(parents=True)
    remote = {
        "output_type": "display_data",
        "metadata": {},
        "data": {
            "text/html": '<script src="https://cdn.example/x.js"></script><link rel="stylesheet" href="http://y">'
            "<style>p { background: url(http://z) }</style><p onclick='steal()'>shown</p><svg onload='steal()'></svg>"
        },
    }
    run = cell("1 + 1") | {"execution_count": 1, "outputs": [remote]}
    title = cell(MARKDOWN, kind="markdown")
    path.write_text(json.dumps({"cells": [title, run], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}))


@pytest.fixture
def figures(tmp_path, monkeypatch):
    folder = tmp_path / "figures"
    monkeypatch.setenv("HANDFUL_FIGURES", str(folder))
    _leave("quick", 2.5, monkeypatch)
    _leave("laptop", 1.42, monkeypatch)
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
        self.fetched, self.links, self.ids, self.alts, self.text, self.stack = [], [], [], [], [], []
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
        if "alt" in attributes:
            self.alts.append(attributes["alt"])
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


def _page(figures, name):
    build_report(figures)
    return _Page(figures / name)


def test_the_site_opens_from_the_file_system_without_a_network(figures):
    index = build_report(figures)
    assert index == figures / "index.html"
    pages = [index, *figures.glob("[!i]*.html"), *figures.glob("notebooks/*/*/*.html")]
    names = {path.relative_to(figures).as_posix() for path in pages}
    assert {"bico.html", "claims.html", "notebooks/quick/demo/bad.html"} <= names
    assert {f"notebooks/{p}/bico/fig06_binary_logistic.html" for p in ("laptop", "source")} <= names
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
            assert not fragment or "=" in fragment or fragment in _Page(file).ids, link  # a filter has a "="
        assert len(set(page.ids)) == len(page.ids)


def test_nothing_in_a_notebook_runs_or_fetches(figures):
    build_report(figures)
    page = (figures / "notebooks" / "laptop" / "bico" / "fig06_binary_logistic.html").read_text(encoding="utf-8")
    main = page[page.index("<main") : page.index("</main>")]
    assert "shown" in main
    assert "a trap" in main
    assert "far away" in main
    for word in (
        "<script",
        "javascript:",
        "steal",
        "onclick",
        "onload",
        "iframe",
        "track.png",
        "data:text",
        "url(",
        "cdn.example",
    ):
        assert word not in main, word


def test_formulas_are_mathml(figures):
    build_report(figures)
    page = (figures / "notebooks" / "laptop" / "bico" / "fig06_binary_logistic.html").read_text(encoding="utf-8")
    assert re.search(r"<msup><mi>x</mi><mn>2</mn></msup>", page)
    assert re.search(r'<math[^>]* display="block"', page)
    assert "$" not in page


def test_names_of_functions_stand_apart_in_formulas_and_wide_formulas_can_be_scrolled_by_keys():
    from handful_papers.notebook_pages import formula

    words = re.sub(r"<mspace[^>]*>", " ", formula(r"k = 2 n\log\log n"))
    assert re.sub(r"<annotation.*?</annotation>|<[^>]*>|&#x0003D;", "", words) == "k2n log log n"
    assert "<mspace" not in formula(r"\log(n) + ab")
    assert 'tabindex="0"' in formula("x", "block")
    assert "tabindex" not in formula("x")


def test_tables_of_a_notebook_can_be_scrolled_by_keys_and_have_no_heads_of_nothing(tmp_path):
    from handful_papers.notebook_pages import notebook_body

    table = pd.DataFrame({"error": [0.5]}, index=pd.Index(["a"], name="method"))
    data = {"text/html": table.to_html() + table.style.to_html()}
    output = {"output_type": "display_data", "metadata": {}, "data": data}
    path = tmp_path / "run.ipynb"
    cells = [cell("table") | {"execution_count": 1, "outputs": [output]}, cell("$$x$$", kind="markdown")]
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}))
    body = notebook_body(path, path)
    heads = re.findall(r"<th\b[^>]*>(.*?)</th>", body, re.DOTALL)
    assert [head.strip() for head in heads] == ["error", "method", "a"] * 2
    assert body.count('class="output_html') == body.count('tabindex="0" role="group"') == 1
    assert re.search(r'<math[^>]* tabindex="0"', body)


def test_every_formula_of_the_notebooks_becomes_mathml():
    from handful_papers.notebook_pages import markdown

    paths = sorted((ROOT / "notebooks").glob("*/*.ipynb"))
    cells = [c for path in paths for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "markdown"]
    rendered = [re.sub(r"<code>.*?</code>", "", markdown("".join(c["source"])), flags=re.DOTALL) for c in cells]
    assert any("<math" in html for html in rendered)
    assert [html for html in rendered if re.search(r"\$\S", html)] == []
    formulas = [formula for html in rendered for formula in re.findall(r"<math.*?</math>", html, re.DOTALL)]
    shown = [re.sub(r"<annotation.*?</annotation>|<[^>]*>", " ", formula, flags=re.DOTALL) for formula in formulas]
    assert [text for text in shown if "\\" in text] == []  # a command that the converter does not know


def test_a_picture_of_a_notebook_becomes_part_of_its_page(tmp_path):
    from handful_papers.notebook_pages import notebook_body

    source = ROOT / "notebooks" / "bico" / "label_your_own.ipynb"
    copy = tmp_path / "run.ipynb"
    copy.write_text(source.read_text())
    picture = re.search(r'<img [^>]*src="data:image/png;base64,([^"]+)"', notebook_body(copy, source)).group(1)
    assert base64.b64decode(picture) == (ROOT / "figures" / "labelling_panel.png").read_bytes()
    assert "src=" not in notebook_body(copy, copy)  # no such file from there


def test_a_card_sets_both_numbers_side_by_side(figures):
    page = _page(figures, "bico.html")
    for part in (
        TEXT,  # escaped, as it was written
        "Measured: largest share needed The paper: “less than 2%”, Section 5",
        "2 % 1.42 ± 0.10 % holds below 2: 1.42 ± 0.05774 (standard error), p = 0.0049 quick: holds weaker",
        "The numbers judged : Weighted",
        "Setting Seeds Mean ± all 3 1.42 0.1",
        "profile laptop, 1 seed",
        "Different from the paper's protocol: what laptop leaves out",
        "One line.",
    ):
        assert part in page.words, part
    about = "Test accuracy against coreset size on four data sets"
    assert page.alts[0] == f"Figure 6: {about}. {TEXT}: holds (1.42 ± 0.10 %)"
    assert page.words.index("The same at profile quick") > page.words.index("1.42 ± 0.10 %")


def test_the_first_screen_counts_what_ran_and_what_failed(figures):
    words = _page(figures, "index.html").words
    for part in (
        "The papers' claims. Of 1, 1 holds.",
        "1 of 40 are recomputed: 1 on generated data",
        "Of 1 committed, 1 is stale : code, parameters or data have changed",
        "bico/fig06_binary_logistic at laptop: parameters",
        "changed; a new run takes",
        "1 notebook failed demo/bad at profile quick, cell 5: ZeroDivisionError: no",
        "----> 1 deep()",
    ):
        assert part in words, part
    assert all(f"{verdict} " in words for verdict in VERDICTS)  # with what each means


def test_every_claim_leads_to_its_evidence_in_two_clicks(figures):
    build_report(figures)
    first = (figures / "index.html").read_text(encoding="utf-8")
    claims_linked = re.findall(r'<a class="link"[^>]* href="(\w+\.html)#([\w-]+)"', first)
    assert claims_linked
    for page, claim in claims_linked:
        source = (figures / page).read_text(encoding="utf-8")
        card = next(c for c in source.split("<article")[1:] if f'id="{claim}"' in c)
        links = {text: href for href, text in re.findall(r'<a href="([^"]+)">([^<]+)</a>', card)}
        for text in ("Executed notebook", "Source notebook", "Rows (CSV)", "Record (JSON)", "Figure (PDF)"):
            assert (figures / links[text]).is_file()
        assert links["The paper"].startswith("https://")
        assert "lib/handful_papers/bico/items/fig06_binary_logistic.py" in card


def test_a_link_to_a_filter_names_what_the_table_of_claims_can_show(figures):
    build_report(figures)
    filters = re.findall(r'href="claims.html#([^"]+)"', (figures / "index.html").read_text(encoding="utf-8"))
    options = re.findall(r"<option(?: value=\"([^\"]*)\")?>([^<]*)", (figures / "claims.html").read_text("utf-8"))
    known = {value or text for value, text in options}
    assert len(set(filters)) == 3 * len(VERDICTS)  # all, the papers', our own
    assert {value for text in filters for _, value in parse_qsl(unescape(text))} == {"paper", "own", *VERDICTS} <= known


def test_algorithms_lead_to_the_cells_that_show_them(figures):
    path = figures / "notebooks" / "laptop" / "bico" / "fig06_binary_logistic.ipynb"
    told = ["# Figure 6\n\nAlgorithm 1 and Algorithm 2.", "## The algorithm in the open\n\nAlgorithm 2 adds."]
    cells = [cell(text, kind="markdown") | {"id": f"c{i}"} for i, text in enumerate(told)]
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    page = _page(figures, "bico.html")
    assert "where they are shown. Algorithm 1: Figure 6 ; Algorithm 2: Figure 6" in page.words
    linked = [link for link in page.links if "#cell-id=" in link]
    assert linked == [f"notebooks/laptop/bico/fig06_binary_logistic.html#cell-id=c{i}" for i in (0, 1)]
    shown = _Page(figures / "notebooks" / "laptop" / "bico" / "fig06_binary_logistic.html")
    assert {"cell-id=c0", "cell-id=c1"} <= set(shown.ids)


def test_parts_of_one_figure_bear_their_titles_on_the_map(figures, monkeypatch):
    for name in ("vrm/fig02_blobs", "vrm/fig02_kdpp"):
        _save(name, "laptop", [], {}, monkeypatch)
    words = _page(figures, "index.html").words
    assert "Figure 2: Blobs" in words
    assert "Figure 2: Determinantal batches" in words


def test_a_card_says_where_no_executed_notebook_was_kept(figures):
    kept = "Source notebook Rows (CSV)"
    assert kept in _page(figures, "bico.html").words
    (figures / "notebooks" / "laptop" / "bico" / "fig06_binary_logistic.ipynb").unlink()
    words = _page(figures, "bico.html").words
    assert kept not in words
    assert "Source notebook (of this run no executed one was kept)" in words


def test_the_table_of_all_claims_gives_each_verdicts_reason(figures):
    words = _page(figures, "claims.html").words
    assert "holds below 2: 1.42 ± 0.05774 (standard error), p = 0.0049" in words


def test_numbers_that_were_judged_are_averaged_as_their_rule_does():
    row = {"settings": {"a": [1.0, 4.0], "b": [2.0]}}
    words = dict(id="x", item="", text="t", whose="own", measured="m", unit="x")
    claim = Claim(**words, rule="above", numbers={"scale": "log"})
    assert _judged(row, claim) == ("Rule above, scale = log", True, [("a", 2, "2", "2.665"), ("b", 1, "2", "")])
    assert _judged(row, None) == ("", False, [("a", 2, "2.5", "2.121"), ("b", 1, "2", "")])


def test_seeds_in_a_row_are_shown_as_a_range():
    assert [_in_ranges(s) for s in ([], [3], [0, 1, 2, 3], [0, 2, 4])] == ["", "3", "0 to 3", "0, 2, 4"]


def test_our_own_claims_are_counted_apart_from_the_papers(figures, monkeypatch):
    own = dict(
        item="Table 8",
        text="A control",
        measured="a lead",
        unit="points",
        rule="above",
        quote="words",
        where="Section 1",
    )
    claims = [Claim(id=id, whose=whose, **own) for id, whose in (("a", "own"), ("b", "own"), ("c", "paper"))]
    evidence = {c.id: [-1.0, -1.1, -0.9] for c in claims}
    _save("bico/tab08_cost", "laptop", claims, evidence, monkeypatch)
    words = _page(figures, "index.html").words
    assert "The papers' claims. Of 2, 1 holds, 1 does not hold." in words
    assert "Our own claims , on our extensions and controls. Of 2, 2 do not hold." in words
    source = (figures / "index.html").read_text(encoding="utf-8")
    cells = re.findall(r'<a class="link"[^>]* href="bico.html#([\w-]+)"[^>]*><span class="cell \w+( own)?"', source)
    assert cells == [("bico-fig06-weighted", ""), ("a", " own"), ("b", " own"), ("c", "")]


def test_the_first_screen_names_the_claims_farthest_from_the_print(figures, monkeypatch):
    about = dict(whose="paper", measured="a ratio", unit="x", rule="below", numbers={"limit": 2}, quote="w", where="1")
    claims = [
        Claim(id=id, item=item, text=f"{id} is near", paper=paper, **about)
        for id, item, paper in (("a", "Table 8", 8), ("b", "Table 8", 4), ("c", "Table 9", 2), ("d", "Table 9", ""))
    ]
    evidence = {
        id: Evidence({"": [0.99 * ours, ours, 1.01 * ours]}) for id, ours in dict(a=9, b=24, c=20, d=99).items()
    }
    _save("bico/tab08_cost", "laptop", claims, evidence, monkeypatch)
    words = _page(figures, "index.html").words
    farthest = re.findall(r"(\w) is near : [^:]*? x instead of (\d)", words)
    assert farthest == [("c", "2"), ("b", "4")]  # "a" is of the table of "b", and "d" has no number to compare with


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


def test_a_claim_stands_at_the_largest_profile_that_tested_it(figures, monkeypatch):
    _leave("paper", 9.9, monkeypatch, lacks="no GPU")
    (claim,) = claims(collect(figures))
    assert (claim.result.profile, claim.verdict) == ("laptop", "holds")
    assert claim.elsewhere == [("quick", "holds weaker")]


def test_a_record_that_cannot_be_read_is_named_and_left_out(figures):
    broken = figures / "quick" / "bico" / "broken.json"
    broken.write_text("{")
    (sentence,) = damaged(figures)
    assert sentence.startswith(f"{broken} is no record of results: ")
    words = _Page(build_report(figures)).words
    assert "Left out: what is no whole record" in words
    assert sentence in words


def test_building_twice_gives_the_same_page_and_renders_no_notebook_again(figures):
    first = build_report(figures).read_bytes()
    page = figures / "notebooks" / "laptop" / "bico" / "fig06_binary_logistic.html"
    written = page.stat().st_mtime_ns
    assert build_report(figures).read_bytes() == first
    assert page.stat().st_mtime_ns == written


# --- the catalogue


def test_the_catalogue_has_the_forty_items_of_the_four_papers():
    labels = {paper.key: {i.label for i in paper.items if i.label} for paper in catalogue()}
    counts = {key: Counter(label.split()[0] for label in found) for key, found in labels.items() if found}
    assert counts == {
        "bico": {"Figure": 13, "Table": 10},
        "svm": {"Figure": 5, "Table": 1},
        "vrm": {"Figure": 3, "Table": 1},  # its Figure 1 is a protocol in words
        "vcgmm": {"Figure": 4, "Table": 3},
    }
    for paper in catalogue():
        parts = [(i.label, i.title) for i in paper.items]
        assert len(set(parts)) == len(parts)


@pytest.mark.parametrize("paper", ["bico", "vrm", "vcgmm"])
def test_every_published_number_belongs_to_an_item_of_the_catalogue(paper):
    from handful_papers.published import _table

    items = {i.label for p in catalogue() if p.key == paper for i in p.items}
    printed = set(_table(paper)["item"])
    assert printed
    for item in printed:
        assert re.match(r"\w+ [\w.]+", item).group() in items
        assert len(published(paper, item))


# --- the notebook of contents


def test_the_contents_show_the_committed_profiles_only(figures):
    table = items_section(figures=figures)
    row = next(line for line in table.splitlines() if "fig06_binary_logistic" in line)
    assert "[Figure 6: Binary logistic regression](notebooks/bico/fig06_binary_logistic.ipynb)" in row
    assert "| largest share needed | 2 % | 1.42 ± 0.10 % |" in row
    assert "| holds |" in row
    assert "(laptop)" in row
    quick = items_section(figures=figures, profiles=("quick",))
    assert "| 2.50 ± 0.10 % |" in quick
    assert "| holds weaker |" in quick


def test_verdicts_agree_with_their_number():
    one = ["holds", "holds weaker", "does not hold", "is undecided", "is not tested at this size"]
    two = ["hold", "hold weaker", "do not hold", "are undecided", "are not tested at this size"]
    assert [agree(v, 1) for v in VERDICTS] == one
    assert [agree(v, 2) for v in VERDICTS] == two


def test_the_contents_are_written_into_their_cell(figures, tmp_path):
    index = tmp_path / "index.ipynb"
    cells = [cell("# Contents", kind="markdown"), cell("stale text", tags=["items"], kind="markdown")]
    index.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}))
    assert not check_index(index, figures=figures)
    assert not check_index(index, figures=figures, write=True)
    assert check_index(index, figures=figures)
    assert "stale text" not in index.read_text()
    assert "(bico/fig06_binary_logistic.ipynb)" in index.read_text()  # as seen from its folder


def test_the_committed_contents_hold_what_the_records_give():
    assert check_index(ROOT / "notebooks" / "index.ipynb", figures=ROOT / "figures"), "handful readme --write"


def test_the_readme_promises_the_minutes_of_the_profiles():
    minutes = sum(run.minutes for run in plan(ROOT / "notebooks", "quick"))
    for page in ("README.md", "docs/reproduction.md"):
        assert f"{minutes:.0f} minutes" in (ROOT / page).read_text(encoding="utf-8")
