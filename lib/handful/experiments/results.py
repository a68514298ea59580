"""What a notebook leaves behind: tidy rows, figures, and a record of parameters, provenance and claims."""

import io
import json
import math
import re
import time
from pathlib import Path

from handful.experiments import provenance
from handful.experiments.verdicts import Verdict, number

PROFILES = ("quick", "laptop", "paper")
_NAME = re.compile(r"[a-z0-9]+/[A-Za-z0-9_]+")


class Experiment:
    """One run of one notebook; the clock starts here.

    Parameters
    ----------
    name : str, "<paper>/<notebook>", e.g. "bico/fig06_binary_logistic"
    profile : "quick", "laptop" or "paper"
    parameters : dict, the values of the notebook's parameters cell, written beside the results

    Attributes
    ----------
    reductions : list of str, what this profile shrinks
    claims : list of dict, see `claim`
    data : dict, data set name -> SHA-256 (None for generated data)
    folder : pathlib.Path, ``figures/<profile>/<paper>``; $HANDFUL_FIGURES replaces ``figures``
    """

    def __init__(self, name, *, profile, parameters):
        self._start = time.perf_counter()
        if not _NAME.fullmatch(name):
            raise ValueError(f"an experiment is named <paper>/<notebook>, like 'bico/fig06_penalty'; got {name!r}.")
        if profile not in PROFILES:
            raise ValueError(f"profile must be one of {', '.join(PROFILES)}; got {profile!r}.")
        self.name, self.profile, self.parameters = name, profile, dict(parameters)
        self.reductions, self.claims, self.data = [], [], {}
        paper, self._stem = name.split("/")
        self.folder = provenance.output_root() / profile / paper

    def __repr__(self):
        return f"Experiment({self.name!r}, profile={self.profile!r})"

    def use(self, dataset):
        """Record a data set's name and checksum; gives the data set back.

        Parameters
        ----------
        dataset : handful.data.Dataset, or anything with `name` and `sha256` (None for generated data)
        """
        self.data[str(dataset.name)] = dataset.sha256
        return dataset

    def reduce(self, what):
        """Record what this profile shrinks, in words: "5 seeds instead of 10"."""
        self.reductions.append(str(what))

    def claim(self, id, text, *, paper, ours, spread=None, verdict, unit="", item="", own=None):
        """State a claim beside what this run found.

        Parameters
        ----------
        id : str, unique over all notebooks: "bico-fig06-weighted-2pct"
        text : str, the claim, as the paper makes it
        paper : number or str, the published value ("" where the paper gives none)
        ours : number or str, the same quantity from this run; None where it was not tested
        spread : float or None, standard deviation over seeds
        verdict : Verdict, from `verdict`, `verdict_near`, `verdict_everywhere` or `judge`
        unit : str, of both numbers: "%", "s", "x"
        item : str, "Table 5", where the notebook makes several tables or figures
        own : bool, whether the claim is ours and not the paper's: about an algorithm of ours, or a control of ours;
            such claims are counted apart. None: it is ours if `paper` is ""

        Raises
        ------
        TypeError
            for a verdict that was typed in instead of computed.
        ValueError
            for an `id` used before, or numbers that are not finite.
        """
        if not isinstance(verdict, Verdict):
            raise TypeError(
                f"claim {id!r}: a verdict is computed, by handful.experiments.verdict, verdict_near, "
                f"verdict_everywhere or judge; got {verdict!r}."
            )
        if any(c["id"] == id for c in self.claims):
            raise ValueError(f"claim {id!r} was stated already in {self.name}.")
        record = {
            "id": id,
            "text": text,
            "paper": paper,
            "ours": ours,
            "spread": spread,
            "unit": unit,
            "item": item,
            "own": paper == "" if own is None else own,
            "verdict": str(verdict),
            "why": verdict.why,
        }
        try:
            record = json.loads(provenance.to_json(record))
        except ValueError as error:
            raise ValueError(f"claim {id!r} holds a number that is not finite: {record}.") from error
        self.claims.append(record)

    def claims_table(self):
        """The claims so far, for display: claim, paper, ours (± spread), verdict, how it was judged.

        Returns
        -------
        pandas Styler of a DataFrame (`.data`); a plain frame would cut the claims short
        """
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "claim": c["text"],
                    "paper": paper_text(c),
                    "ours": ours_text(c),
                    "verdict": c["verdict"],
                    "judged by": c["why"],
                }
                for c in self.claims
            ],
            columns=["claim", "paper", "ours", "verdict", "judged by"],
        ).style.hide(axis="index")

    def save(self, rows, fig=None, *, caption=""):
        """Write rows and figures, then the record, which so never describes files that are not there.

        Parameters
        ----------
        rows : pandas.DataFrame or list of dict, tidy: one row per (method, setting, seed)
        fig : matplotlib Figure, or dict of several: "" -> ``<name>.png``, "weights" -> ``<name>_weights.png``
        caption : str, what the figures show; names the band

        Returns
        -------
        pathlib.Path : the JSON record
        """
        import pandas as pd

        frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows)
        if frame.empty:
            raise ValueError(f"{self.name}: no rows to save; a notebook leaves one per (method, setting, seed).")
        figures = {} if fig is None else fig if isinstance(fig, dict) else {"": fig}
        record_path = self.folder / f"{self._stem}.json"
        old = _figures_of(record_path)
        # Ten digits hide the last-bit differences between machines that no reader means.
        csv = frame.to_csv(index=False, lineterminator="\n", float_format="%.10g")
        provenance.write_atomically(self.folder / f"{self._stem}.csv", csv)
        names = []
        for key, one in figures.items():
            names.append(f"{self._stem}_{key}" if key else self._stem)
            for suffix in ("png", "pdf"):
                provenance.write_atomically(self.folder / f"{names[-1]}.{suffix}", render(one, suffix))
        record = self._record(frame, names, caption)
        provenance.write_atomically(record_path, provenance.to_json(record))
        for stale in set(old) - set(names):
            for suffix in ("png", "pdf"):
                (self.folder / f"{stale}.{suffix}").unlink(missing_ok=True)
        return record_path

    def _record(self, frame, figures, caption):
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
            "seconds": round(time.perf_counter() - self._start, 2),
            "threads": provenance.threads(),
            "machine": provenance.machine(),
            "reductions": self.reductions,
            "figures": figures,
            "caption": caption,
            "claims": self.claims,
        }


def render(fig, suffix):
    """A figure as "png" or "pdf" bytes, without dates or version stamps: same figure, same bytes."""
    from matplotlib import rc_context

    from handful.experiments.style import rc

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


def _figures_of(path):
    path = Path(path)
    if not path.is_file():
        return []
    try:
        return json.loads(path.read_text(encoding="utf-8")).get("figures", [])
    except json.JSONDecodeError:
        return []  # a record that cannot be read is replaced below; its pictures are overwritten or stay
