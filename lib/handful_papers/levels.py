"""The level of a run's data: the paper's own, a part of them, a stand-in, or generated."""

from dataclasses import dataclass

OWN, PART, STAND_IN, GENERATED = LEVELS = ("the paper's", "part", "stand-in", "generated")


@dataclass(frozen=True)
class SetTaken:
    """A data set that a run took.

    Attributes
    ----------
    key : str, its name in the registry, without what a bracket says of a cut of it
    is_cut : bool, whether a bracket says that it is a cut of its own, so that rows do not compare
    known : the registry's entry, None where it has none
    instead_of : str, the paper's data set that it stands in for; "" for none
    is_generated : bool
    rows : int, how many the run took; None for all
    """

    key: str
    is_cut: bool
    known: object
    instead_of: str
    is_generated: bool
    rows: int | None


def level(data, papers_data):
    """The level of a run's data: the lowest of its data sets, and what each of them is.

    Parameters
    ----------
    data : dict of a record, data set name -> dict with sha256 and, where the run took less or
        another set than the paper, rows and instead_of (see `Experiment.use`)
    papers_data : list of the paper's data sets by their names in the registry, as a str, or as a
        dict of `name` and `rows` where the paper took more than the entry holds; empty where it
        generates its own

    Returns
    -------
    dict : kind, one of `LEVELS`; text for a reader, "part: 16 % of Covertype"
    """
    wanted = dict(map(_name_and_rows, papers_data))
    found = [_level_of(_set_taken(name, entry), wanted) for name, entry in data.items()]
    return _level_beside_named(found) if wanted else _level_of_ours(found)


def _level_of_ours(found):
    # Where the paper generates its data, or there is none.
    if all(GENERATED in one for one in found):
        return {"kind": GENERATED, "text": GENERATED}
    texts = dict.fromkeys(text for kind, text in found if kind != GENERATED)
    return {"kind": STAND_IN, "text": f"real data of our choice: {'; '.join(texts)}"}


def _level_beside_named(found):
    # Where the paper names its data: what is generated beside them says nothing of those.
    found = [one for one in found if one[0] != GENERATED]
    if not found:
        return {"kind": STAND_IN, "text": f"{STAND_IN}: generated data"}
    if all(GENERATED in one for one in found):
        return {"kind": GENERATED, "text": GENERATED}
    kind = max((kind for kind, _ in found), key=LEVELS.index)
    if kind == OWN:
        return {"kind": OWN, "text": "the paper's data"}
    texts = dict.fromkeys(text for one, text in found if one not in (OWN, GENERATED))
    told = f": {'; '.join(texts)}" if texts else ""
    return {"kind": kind, "text": f"{kind}{told}"}


def _name_and_rows(declared):
    if isinstance(declared, str):
        return declared, None
    return declared["name"], declared["rows"]


def _set_taken(name, entry):
    from handful.data.registry import ENTRIES

    key, bracket, _ = name.partition("[")
    known = ENTRIES.get(key)
    made_by_the_registry = known is not None and known.kind == "generated"
    return SetTaken(
        key=key,
        is_cut=bool(bracket),
        known=known,
        instead_of=entry.get("instead_of") or "",
        is_generated=entry.get("sha256") is None or made_by_the_registry,
        rows=entry.get("rows"),
    )


def _level_of(taken, wanted):
    """(kind, text) of one data set, where the paper's are `wanted`: name -> rows, None for all."""
    from handful_papers.style import data_name

    if taken.instead_of and wanted:
        return STAND_IN, f"{data_name(taken.key)} for {taken.instead_of}"
    is_wanted = taken.key in wanted
    if taken.is_generated:
        return OWN if is_wanted else GENERATED, GENERATED
    if taken.known is None:
        return OWN if is_wanted else STAND_IN, data_name(taken.key)
    whole = _whole_set(taken, wanted)
    share = _share_text(taken, whole, wanted)
    if whole not in wanted:
        shown = "" if wanted else share
        return STAND_IN, shown or data_name(taken.key)
    return (PART, share) if share else (OWN, taken.key)


def _whole_set(taken, wanted):
    """The data set that a set is a part of, if the paper took that one; else the set itself."""
    if taken.key in wanted:
        return taken.key
    of = taken.known.of
    is_asked_for = of in wanted if wanted else _is_in_the_registry(of)
    return of if is_asked_for else taken.key


def _is_in_the_registry(name):
    from handful.data.registry import ENTRIES

    return name in ENTRIES


def _share_text(taken, whole, wanted):
    """How much of a data set was taken, "16 % of Covertype"; "" for all of it."""
    from handful_papers.style import data_name

    known = taken.known
    rows = known.rows + known.test_rows
    published = wanted.get(whole)
    if not published and (whole != taken.key or not wanted):
        published = known.of_rows
    published = published or rows
    n_taken = taken.rows or rows
    if taken.is_cut or n_taken >= published:
        return ""
    return f"{100 * n_taken / published:.2g} % of {data_name(whole)}"
