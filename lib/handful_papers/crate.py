"""The records as an RO-Crate 1.1: JSON-LD that says which run made which file, from which data, code and paper."""

from handful_papers.experiment import figure, papers
from handful_papers.provenance import commit, git, to_json, write_atomically
from handful_papers.run import FIGURES, records

TARGET = FIGURES / "ro-crate-metadata.json"
AUTHORS = "#authors"
LICENCE = "https://spdx.org/licenses/BSD-3-Clause"
KINDS = {".csv": "text/csv", ".json": "application/json", ".png": "image/png", ".ipynb": "application/x-ipynb+json"}


def crate(figures=FIGURES):
    """The crate of a folder of records: a dict with `@context` and `@graph`.

    Each record is an action: its results are the files, its objects the data sets with their checksums, its instrument
    the code at its commit. Papers are what the action is about.
    """
    found, files, actions, others = records(figures)[0], [], [], {}
    for path, record in found:
        suffixes = [path.with_suffix(suffix) for suffix in (".json", ".csv", ".ipynb")]
        made = [p for p in [*suffixes, *(path.with_name(f"{stem}.png") for stem in record["figures"])] if p.is_file()]
        names, paper = [p.relative_to(figures).as_posix() for p in made], papers()[record["item"].split("/")[0]]
        files += [_entity(n, "File", name=n, encodingFormat=KINDS[p.suffix]) for n, p in zip(names, made)]
        code = f"#handful-{record['commit']}"
        others[code] = _entity(code, "SoftwareApplication", name="handful", version=record["versions"]["handful"])
        others[code]["softwareRequirements"] = sorted(f"{k} {v}" for k, v in record["versions"].items())
        data = [f"#data-{key}" for key in record["data"]]
        for ref, (key, about) in zip(data, record["data"].items()):
            known = {"identifier": f"sha256:{about['sha256']}"} if about["sha256"] else {}
            others[ref] = _entity(ref, "Dataset", name=key, **known)
        work = paper.get("url") or f"#{record['item'].split('/')[0]}"
        others[work] = _entity(work, "ScholarlyArticle" if paper.get("url") else "CreativeWork", name=paper["title"])
        title, action = (
            "; ".join(item["title"] for item in figure(record["item"])["item"]),
            f"#{record['profile']}/{record['item']}",
        )
        actions.append(_entity(action, "CreateAction", name=title, about=_ref(work), instrument=_ref(code)))
        actions[-1] |= {key: _refs(refs) for key, refs in (("object", data), ("result", names)) if refs}
    root = _entity("./", "Dataset", name="Records of handful's reproduction", license=_ref(LICENCE))
    root |= {
        "description": "Rows, figures and verdicts of four papers' tables and figures, and of experiments of our own."
    }
    root |= {"datePublished": git("log", "-1", "--format=%cs") or "", "version": commit()[0] or ""}
    root |= {"hasPart": _refs(f["@id"] for f in files), "mentions": _refs(a["@id"] for a in actions)}
    root |= {"author": _ref(AUTHORS), "publisher": _ref(AUTHORS)}
    head = _entity("ro-crate-metadata.json", "CreativeWork", about=_ref("./"))
    head |= {"conformsTo": _ref("https://w3id.org/ro/crate/1.1")}
    licence = _entity(LICENCE, "CreativeWork", name="BSD-3-Clause")
    authors = _entity(AUTHORS, "Organization", name="the handful developers")
    return {
        "@context": "https://w3id.org/ro/crate/1.1/context",
        "@graph": [head, root, licence, authors, *files, *actions, *others.values()],
    }


def write():
    """Write `TARGET`; its path."""
    write_atomically(TARGET, to_json(crate()))
    return TARGET


def _entity(at, kind, **properties):
    return {"@id": at, "@type": kind} | properties


def _ref(name):
    return {"@id": name}


def _refs(names):
    """References as the specification asks: one stands alone, several in a list."""
    found = [_ref(name) for name in names]
    return found[0] if len(found) == 1 else found
