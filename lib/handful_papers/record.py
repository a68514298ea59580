"""What a notebook leaves behind: tidy rows, figures, and a record of parameters, provenance and claims."""

import copy
import io
import json
import math
import os
import re
import time
import warnings
from pathlib import Path

from handful_papers import provenance
from handful_papers.claims import Run, judge_all
from handful_papers.fingerprint import data_fingerprint, fingerprint
from handful_papers.legible import problems
from handful_papers.notebooks import PROFILES, read_notebook, reductions
from handful_papers.style import rc
from handful_papers.sweep import sweep
from handful_papers.verdicts import number

BY_HAND = "by hand"  # the profile of a run that `handful reproduce` has not started
_NAME = re.compile(r"[a-z0-9]+/[A-Za-z0-9_]+")


class Experiment:
    """One run of one notebook; the clock starts here.

    Parameters
    ----------
    name : str, "<paper>/<notebook>", e.g. "bico/fig06_binary_logistic"
    namespace : dict, `globals()` of the notebook, handed over before anything is computed: its plain values under
        lower-case names are the run's parameters

    Results go to a profile's folder only where `handful reproduce` runs the notebook. Run by hand, in JupyterLab or by
    papermill, with whatever parameters, it leaves them in ``results/<paper>`` of the working folder.

    Attributes
    ----------
    profile : str
    parameters : dict
    reductions : list of str, where the parameters are not those of profile `paper`
    facts : dict, see `fact`
    data : dict, data set name -> dict, see `use`
    claims : list of dict, once saved
    folder : pathlib.Path, where results go
    """

    def __init__(self, name, namespace=None, *, profile=None, parameters=None):
        self._start = time.perf_counter()
        self._sweep_seconds = self._sweep_wall = 0.0
        if not _NAME.fullmatch(name):
            raise ValueError(f"an experiment is named <paper>/<notebook>, like 'bico/fig06_penalty'; got {name!r}.")
        if namespace is not None:
            parameters, profile = _parameters(namespace), os.environ.get("HANDFUL_PROFILE", BY_HAND)
        if profile not in (*PROFILES, BY_HAND):
            raise ValueError(f"profile must be one of {', '.join(PROFILES)}; got {profile!r}.")
        self.name, self.profile, self.parameters = name, profile, dict(parameters)
        self.reductions, self.claims, self.data, self.facts = [], [], {}, {}
        root = provenance.find_root()
        if namespace is not None and root:
            self.reductions = reductions(root / "notebooks", name, self.parameters)
        paper, self._stem = name.split("/")
        self.folder = (
            Path.cwd() / "results" / paper if profile == BY_HAND else provenance.output_root() / profile / paper
        )

    def __repr__(self):
        return f"Experiment({self.name!r}, profile={self.profile!r})"

    def use(self, dataset, *, rows=None, instead_of=None):
        """Record a data set's name, checksum and how much of it this run takes; gives the data set back.

        Parameters
        ----------
        dataset : handful.data.Dataset, or anything with `name` and `sha256` (None for generated data)
        rows : int, how many of its rows the run takes, training and test; default: all
        instead_of : str, the data set of the paper that this one stands in for: "SVHN"
        """
        entry = {"sha256": dataset.sha256, "fingerprint": data_fingerprint(str(dataset.name))}
        if rows is not None:
            entry["rows"] = int(rows)
        if instead_of:
            entry["instead_of"] = instead_of
        self.data[str(dataset.name)] = entry
        return dataset

    def fact(self, **facts):
        """Record facts of the run that claims may need and rows do not hold: ``fact(train_accuracy=97.2)``."""
        self.facts |= facts

    def sweep(self, function, settings, seeds=(None,), *, n_jobs=1, **shared):
        """`sweep.sweep`, with this experiment's folder for finished tasks; its tasks' seconds count as the run's."""
        start = time.perf_counter()
        folder = self.folder / ".state" / "tasks" / self._stem
        rows, seconds = sweep(function, settings, seeds, n_jobs=n_jobs, folder=folder, **shared)
        self._sweep_wall += time.perf_counter() - start
        self._sweep_seconds += seconds
        return rows

    @property
    def seconds(self):
        """Seconds that the run has taken, those of all tasks included, also of tasks that were finished before."""
        return time.perf_counter() - self._start - self._sweep_wall + self._sweep_seconds

    def save(self, rows, fig=None, evidence=None, *, caption=""):
        """Write rows and figures, judge the claims, then write the record, which so describes what is there.

        Parameters
        ----------
        rows : pandas.DataFrame or list of dict, tidy: one row per (method, setting, seed)
        fig : matplotlib Figure, or dict of several: "" -> ``<name>.png``, "weights" -> ``<name>_weights.png``
        evidence : the function of `<paper>/items/<notebook>.py`: which numbers decide which claim
        caption : str, what the figure shows; names the band. A dict with a caption for each key of `fig`, if several

        Returns
        -------
        pathlib.Path : the JSON record
        """
        import pandas as pd

        frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows)
        if frame.empty:
            raise ValueError(f"{self.name}: no rows to save; a notebook leaves one per (method, setting, seed).")
        figures = {} if fig is None else fig if isinstance(fig, dict) else {"": fig}
        captions = caption if isinstance(caption, dict) else dict.fromkeys(list(figures)[:1], caption)
        if set(captions) != set(figures):
            raise ValueError(f"{self.name}: figures {sorted(figures)} need a caption each, got {sorted(captions)}.")
        record_path = self.folder / f"{self._stem}.json"
        old = read_record(record_path).get("figures", [])
        # Ten digits hide the last-bit differences between machines that no reader means.
        csv = frame.to_csv(index=False, lineterminator="\n", float_format="%.10g")
        provenance.write_atomically(self.folder / f"{self._stem}.csv", csv)
        names, unreadable = {}, []
        for key, one in figures.items():
            name = f"{self._stem}_{key}" if key else self._stem
            names[name] = captions[key]
            unreadable += write_figure(one, self.folder / name)
        for sentence in unreadable:
            warnings.warn(sentence, stacklevel=2)
        record = self._record(frame, names) | {"unreadable": unreadable}
        if evidence is not None:
            self.claims = record["claims"] = judge_all(self.name, run_of(record, self.folder), evidence)
        provenance.write_atomically(record_path, provenance.to_json(record))
        for stale in set(old) - set(names):
            for suffix in ("png", "pdf"):
                (self.folder / f"{stale}.{suffix}").unlink(missing_ok=True)
        return record_path

    def claims_table(self):
        """The claims as judged, for display: claim, paper, ours (± spread), verdict, how it was judged.

        Returns
        -------
        pandas Styler of a DataFrame (`.data`); a plain frame would cut the claims short
        """
        import pandas as pd

        columns = {"claim": lambda c: c["text"], "paper": paper_text, "ours": ours_text}
        columns |= {"verdict": lambda c: c["verdict"], "judged by": lambda c: c["why"]}
        table = pd.DataFrame([{k: f(c) for k, f in columns.items()} for c in self.claims], columns=list(columns))
        return table.style.hide(axis="index")

    def _fingerprint(self):
        """Hash of the notebook's code, its parameters and the code that it reaches; None outside a checkout."""
        root = provenance.find_root()
        path = root / "notebooks" / f"{self.name}.ipynb" if root else None
        if path is None or not path.is_file():
            return None
        return fingerprint(read_notebook(path), self.parameters)

    def _record(self, frame, figures):
        sha, dirty = provenance.commit()
        if "seed" in frame:
            seeds = sorted({int(s) for s in frame["seed"].dropna()})
        else:
            seeds = [self.parameters["seed"]] if "seed" in self.parameters else []
        return {
            "item": self.name,
            "profile": self.profile,
            "parameters": self.parameters,
            "seeds": seeds,
            "versions": provenance.versions(),
            "commit": sha,
            "dirty": dirty,
            "data": self.data,
            "seconds": round(self.seconds, 2),
            "threads": provenance.threads(),
            "machine": provenance.machine(),
            "reductions": self.reductions,
            "facts": json.loads(provenance.to_json(self.facts)),
            "figures": list(figures),
            "captions": figures,
            "fingerprint": self._fingerprint(),
            "claims": self.claims,
        }


def _parameters(namespace):
    """The plain values of a notebook's namespace: numbers, words, lists and dicts of them, under lower-case names."""
    names = [k for k in namespace if k.islower() and not k.startswith("_")]
    return {k: copy.deepcopy(namespace[k]) for k in names if _is_plain(namespace[k])}


def _is_plain(value):
    if isinstance(value, dict):
        return all(isinstance(k, str) for k in value) and all(map(_is_plain, value.values()))
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))


def run_of(record, folder):
    """What `evidence(run)` sees of a record: its rows as they are on disk in `folder`, parameters, facts, profile."""
    import pandas as pd

    stem = record["item"].split("/")[1]
    rows = pd.read_csv(Path(folder) / f"{stem}.csv", keep_default_na=False, na_values=[""])
    return Run(rows, record["parameters"], record.get("facts", {}), record["profile"])


def read_record(path):
    """A record's content; an empty dict where there is none, or none that can be read."""
    try:
        return dict(json.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def write_figure(fig, path):
    """Write a figure as PNG and PDF, unless that very PNG is there; what cannot be read in it (see `legible`).

    Parameters
    ----------
    fig : matplotlib Figure
    path : pathlib.Path without suffix

    Returns
    -------
    list of str, sentences
    """
    from matplotlib import rc_context

    with rc_context(rc()):
        for _ in range(3):  # the layout settles: whether the figure was shown before it is saved makes no difference
            fig.draw_without_rendering()
    png, pdf = (path.with_name(f"{path.name}.{suffix}") for suffix in ("png", "pdf"))
    drawn = render(fig, "png")
    if not (png.is_file() and pdf.is_file() and png.read_bytes() == drawn):
        provenance.write_atomically(png, drawn)
        provenance.write_atomically(pdf, render(fig, "pdf"))
    with rc_context(rc()):
        return [f"{path.name}: {problem}" for problem in problems(fig)]


def render(fig, suffix):
    """A figure as "png" or "pdf" bytes, without dates or version stamps: same figure, same bytes."""
    from matplotlib import rc_context

    metadata = {"png": {"Software": None}, "pdf": {"CreationDate": None, "Producer": None, "Creator": None}}
    buffer = io.BytesIO()
    with rc_context(rc()):
        fig.savefig(buffer, format=suffix, metadata=metadata[suffix])
    return buffer.getvalue()


def ours_text(claim):
    """Our number of a claim as text, with spread and unit: "91.2 ± 0.3 %"."""
    if claim["ours"] is None:
        return "–"
    text = number(claim["ours"])
    if claim.get("spread") == 0:
        text += " ± 0"
    elif claim.get("spread") is not None:
        # Two digits of the spread, and as many of the number as the spread lets one believe.
        decimals = max(0, 1 - math.floor(math.log10(claim["spread"])))
        text = f"{claim['ours']:,.{decimals}f} ± {claim['spread']:,.{decimals}f}"
    return _with_unit(claim["ours"], text, claim.get("unit", ""))


def paper_text(claim):
    """The paper's number of a claim as text, with its unit; words stay as they are."""
    return _with_unit(claim["paper"], number(claim["paper"]), claim.get("unit", ""))


def _with_unit(value, text, unit):
    return f"{text} {unit}" if unit and not isinstance(value, str) else text
