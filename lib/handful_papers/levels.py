"""Levels of data: whether a run saw the paper's data, a part of it, a stand-in, or generated data."""

from handful.data.registry import ENTRIES

from handful_papers.looks import data_name

LEVELS = OWN, PART, STAND_IN, GENERATED = "the paper's", "part", "stand-in", "generated"


def level(data, papers_data):
    """The level of one run: the lowest of its data sets, and what each of them is.

    Parameters
    ----------
    data : dict of a record, data set name -> dict with sha256 and, where the run took less or another set than the
        paper, rows and instead_of (see `Experiment.use`)
    papers_data : list of the paper's data sets by their names in the registry, as a str where the entry holds what the
        paper took, or as a dict of `name` and `rows` where it took more; empty where it generates its own. A generated
        set among them, which the paper generates as well, lowers no level

    Returns
    -------
    kind : one of `LEVELS`
    text : str, for a reader: "part: 16 % of Covertype"
    """
    wanted = {d: None for d in papers_data if isinstance(d, str)}
    wanted |= {d["name"]: d["rows"] for d in papers_data if isinstance(d, dict)}
    found = {name: _level(name, entry, wanted) for name, entry in data.items()}
    real = [name for name, (kind, _) in found.items() if kind != GENERATED]
    if not real:
        return GENERATED, "generated"
    if not papers_data:
        texts = dict.fromkeys(_of_our_choice(name, data[name]) for name in real)
        return STAND_IN, f"real data of our choice: {'; '.join(texts)}"
    kind = max((kind for kind, _ in found.values()), key=LEVELS.index)
    if kind == OWN:
        return kind, "the paper's data"
    texts = dict.fromkeys(text for one, text in found.values() if one not in (OWN, GENERATED))
    return kind, f"{kind}: {'; '.join(texts)}"


def _of_our_choice(name, entry):
    base = name.partition("[")[0]
    known = ENTRIES.get(base)
    if known is None:
        return data_name(base)
    published = known.of_rows or _rows(known)
    return _share(name, entry, published, known.of if known.of in ENTRIES else base) or data_name(base)


def _rows(known):
    return known.rows + known.test_rows


def _share(name, entry, published, whole):
    """What part of a set a run took, "" where it took all, or columns or classes that a name in brackets says."""
    rows = entry.get("rows") or _rows(ENTRIES[name.partition("[")[0]])
    return f"{100 * rows / published:.2g} % of {data_name(whole)}" if "[" not in name and rows < published else ""


def _level(name, entry, wanted):
    base = name.partition("[")[0]
    known = ENTRIES.get(base)
    if entry.get("instead_of"):
        return STAND_IN, f"{data_name(base)} for {entry['instead_of']}"
    if entry.get("sha256") is None or (known is not None and known.kind == "generated"):
        return OWN if base in wanted else GENERATED, "generated"
    if base in wanted:
        whole, published = base, wanted[base] or _rows(known)
    elif known is not None and known.of in wanted:
        whole, published = known.of, wanted[known.of] or known.of_rows
    else:
        return STAND_IN, data_name(base)
    share = _share(name, entry, published, whole)
    return (PART, share) if share else (OWN, base)
