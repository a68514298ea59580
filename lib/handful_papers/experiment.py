"""What a notebook leaves behind: tidy rows, figures, and a record of parameters, provenance and
claims.

Also here: what a figure's ``.toml`` says of it.
"""

import contextlib
import inspect
import math
import os
import random
import shutil
import time
import tomllib
from functools import cache
from pathlib import Path

from handful_papers.claims import BY_HAND, HOME, PROFILES, Claim, Run, judge_all, number
from handful_papers.parameters import as_recorded, run_parameters
from handful_papers.provenance import (
    PACKAGES,
    commit,
    expected_hash,
    level,
    machine,
    threads,
    to_json,
    versions,
    write_atomically,
)
from handful_papers.records import read_record
from handful_papers.tasks import leave_unsaid, run_task, workers
from handful_papers.verification import hashes

# Parameters that decide how a run goes and not what it finds.
NOT_PROTOCOL = ("device", "n_jobs", "show")
# The profile of the figures that want a GPU: as `paper`, but for what their entry changes.
GPU = "gpu"
# of a notebook with the values of its cell, where its entry does not say more
QUICK_MINUTES = 0.5


# --- what the .toml files say


@cache
def papers():
    """The papers in order: key -> dict of `paper.toml` (title, source, about, url, methods)."""
    found = {
        p.parent.name: tomllib.loads(p.read_text(encoding="utf-8"))
        for p in HOME.glob("*/paper.toml")
    }
    return dict(sorted(found.items(), key=lambda pair: pair[1]["order"]))


@cache
def names():
    """ "<paper>/<figure>" of every figure: paper by paper, figures before tables, by number."""
    found = [f"{p.parent.name}/{p.stem}" for p in HOME.glob("*/*.toml") if p.stem != "paper"]
    order = list(papers())

    def place(name):
        kind, _, label = name.split("/")[1].partition("_")
        return (
            order.index(name.split("/")[0]),
            kind[:3] not in ("fig", "tab"),
            "S" in kind,
            kind,
            label,
        )

    return sorted(found, key=place)


@cache
def figure(name):
    """A figure's ``.toml``: a dict with `item`, a list of dict; `profiles`; `expected`; `claim`, a
    list of `Claim`.

    Raises
    ------
    ValueError
        naming the file, where it is missing or not as it should be.
    """
    path = HOME / f"{name}.toml"
    try:
        about = tomllib.loads(path.read_text(encoding="utf-8"))
        about["item"] = [{"label": ""} | item for item in about["item"]]
        for item in about["item"]:
            for key in ("label", "title", "about"):
                item[key] + ""
        # of most figures: they make one item
        first = {"item": about["item"][0]["label"]}
        about["claim"] = [Claim(**first | row) for row in about.get("claim", [])]
        profiles = about["profiles"] = {"quick": {"minutes": QUICK_MINUTES}} | about["profiles"]
        if GPU in profiles:
            profiles[GPU] = profiles["paper"] | profiles[GPU]
        for profile in (*PROFILES, *profiles.keys() - PROFILES):
            if not profiles[profile]["minutes"] > 0 or profile not in (*PROFILES, GPU):
                raise ValueError(
                    f"profiles are {', '.join(PROFILES)} and {GPU}, with `minutes` above 0; see "
                    f"{profile}"
                )
    except FileNotFoundError:
        raise ValueError(
            f"{name} has no entry: write {path} (CONTRIBUTING says what it holds)."
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: {error!r}") from error
    return {"expected": {}} | about


def reductions(name, parameters):
    """Where a run's parameters are not those of profile `paper`, but for more seeds: a list of
    sentences."""
    paper = figure(name)["profiles"]["paper"]
    compared = [key for key in parameters if key in paper and key not in NOT_PROTOCOL]
    compared = [key for key in compared if key != "n_seeds" or parameters[key] < paper[key]]
    return [
        sentence for key in compared for sentence in _differences(key, parameters[key], paper[key])
    ]


def _differences(key, value, paper):
    """A sentence for each place where two values of a parameter differ; dicts, and lists of them,
    are looked into."""
    dicts = [
        isinstance(v, list) and all(isinstance(one, dict) for one in v) for v in (value, paper)
    ]
    if isinstance(value, dict) and isinstance(paper, dict):
        pairs = [(f"{key}.{k}", value.get(k), paper.get(k)) for k in {**paper, **value}]
    elif all(dicts) and len(value) == len(paper):
        pairs = [(f"{key}[{i}]", *pair) for i, pair in enumerate(zip(value, paper))]
    else:
        return [f"{key} = {value!r:.120} instead of {paper!r:.120}"] if value != paper else []
    return [sentence for pair in pairs for sentence in _differences(*pair)]


class Sentences(list):
    """Where a run is smaller than the paper's, as a list that shows itself as one sentence."""

    def __repr__(self):
        return f"Other than in the paper: {'; '.join(self)}." if self else "As in the paper."


# --- the experiment


class Experiment:
    """One run of one notebook; the clock starts here.

    Results go to a profile's folder only where `handful reproduce` runs the notebook. Run by hand,
    in JupyterLab or by papermill, with whatever parameters, it leaves them in ``results/<paper>``
    of the working folder.

    Parameters
    ----------
    name : str, "<paper>/<figure>", e.g. "bico/fig06_binary_logistic"
    namespace : dict, `globals()` of the notebook, handed over before anything is computed: its
        values of the names of the parameters cell are the run's parameters (see `run_parameters`,
        which refuses others)

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

    def __init__(self, name, namespace):
        self._start = time.perf_counter()
        self._sweep_seconds = 0.0
        self._sweep_wall = 0.0
        leave_unsaid()
        self.name = name
        self.figure = figure(name)
        paper, self._stem = name.split("/")
        # set by `handful reproduce`: figures/<profile>
        records = os.environ.get("HANDFUL_RECORDS")
        self.profile = Path(records).name if records else BY_HAND
        self.folder = Path(records or Path.cwd() / "results") / paper
        again = any(isinstance(value, Experiment) for value in namespace.values())
        self.parameters = run_parameters(name, namespace, again=again)
        self.reductions = Sentences(reductions(name, self.parameters))
        self.claims = []
        self.data = {}
        self.facts = {}
        self._commits = set()

    def __repr__(self):
        return f"Experiment({self.name!r}, profile={self.profile!r})"

    def use(self, dataset, *, rows=None, instead_of=None):
        """Record a data set's name, checksum and how much of it this run takes; gives the data set
        back.

        Parameters
        ----------
        dataset : handful.data.Dataset, or anything with `name` and `sha256` (None for generated
            data)
        rows : int, how many of its rows the run takes, training and test; default: all
        instead_of : str, the data set of the paper that this one stands in for: "SVHN"
        """
        entry = {"sha256": dataset.sha256, "rows": rows and int(rows), "instead_of": instead_of}
        self.data[str(dataset.name)] = {k: v for k, v in entry.items() if k == "sha256" or v}
        return dataset

    def fact(self, **facts):
        """Record facts of the run that claims may need and rows do not hold:
        ``fact(train_accuracy=97.2)``."""
        self.facts |= {
            key: as_recorded(f"{self.name}: fact {key}", value) for key, value in facts.items()
        }

    def sweep(self, function, settings, seeds=(None,), *, n_jobs=1, **shared):
        """Rows of ``function(**setting, seed=seed, **shared)`` for every setting and seed, in that
        order.

        Each finished task is kept by `joblib.Memory` until the record is saved, so that a killed
        run goes on where it stopped; a task runs again if its arguments, its function's module or
        the versions of what computes change. A long task keeps its parts, too (see `tasks.part`).

        Parameters
        ----------
        function : defined at the top of a module; gives a DataFrame or a list of dict, of numbers
            and strings
        settings : list of dict of plain values; those that are numbers or strings become columns of
            the rows, where the function gives no column of that name
        seeds : ints, or (None,) for a function without `seed`
        n_jobs : int, processes, of one thread each; where ``$HANDFUL_DASK`` gives the address of a
            scheduler, its workers run the tasks instead, and keep them if they see the same files
        shared : further arguments, alike for all tasks

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        Whatever a task raises; what had finished stays finished.
        """
        import pandas as pd
        from joblib import Memory, delayed
        from tqdm import tqdm

        start = time.perf_counter()
        tasks = [
            dict(setting) | ({} if seed is None else {"seed": int(seed)})
            for setting in settings
            for seed in seeds
        ]
        if not tasks:
            raise ValueError(f"{function.__name__}: no settings or no seeds to sweep over.")
        if share := os.environ.get("HANDFUL_AUDIT"):
            tasks = random.Random(f"{self.name} {function.__name__}").sample(
                tasks, math.ceil(len(tasks) * float(share))
            )
        folder = self.folder / ".tasks" / self._stem
        run = Memory(folder, verbose=0).cache(run_task, ignore=["folder"])
        key = [inspect.getsource(inspect.getmodule(function)), versions(PACKAGES[1:])]
        with workers(n_jobs) as parallel:
            calls = (delayed(run)(function, shared | task, key, str(folder)) for task in tasks)
            results = list(
                tqdm(
                    parallel(calls),
                    total=len(tasks),
                    desc=function.__name__,
                    unit="task",
                    disable=None,
                )
            )
        frames = []
        for task, (rows, seconds, sha) in zip(tasks, results):
            self._sweep_seconds += seconds
            self._commits |= {sha} - {None}
            plain = {
                k: v
                for k, v in task.items()
                if isinstance(v, (str, int, float)) and rows and k not in rows[0]
            }
            frames += [pd.DataFrame(rows).assign(**plain)] if rows else []
        self._sweep_wall += time.perf_counter() - start
        rows = pd.concat(frames, ignore_index=True)
        if share:
            self._hand_over(rows)
        return rows

    @property
    def seconds(self):
        """Seconds that the run has taken, those of all tasks included, also of tasks that were
        finished before."""
        return time.perf_counter() - self._start - self._sweep_wall + self._sweep_seconds

    def save(self, rows, fig=None, evidence=None, *, caption=""):
        """Write rows and figures, judge the claims, then write the record, which so describes what
        is there.

        Parameters
        ----------
        rows : pandas.DataFrame or list of dict, tidy: one row per (method, setting, seed)
        fig : matplotlib Figure, or dict of several: "" -> ``<name>.png``, "weights" ->
            ``<name>_weights.png``
        evidence : the function of the figure's module: which numbers decide which claim
        caption : str, what the figure shows; names the band. A dict with a caption for each key of
            `fig`, if several

        Returns
        -------
        pathlib.Path : the JSON record
        """
        import pandas as pd

        from handful_papers import style

        frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows)
        if frame.empty:
            raise ValueError(
                f"{self.name}: no rows to save; a notebook leaves one per (method, setting, seed)."
            )
        path = self.folder / f"{self._stem}.json"
        if os.environ.get("HANDFUL_AUDIT"):
            if not self._sweep_wall:
                self._hand_over(frame)
            return path
        figures = {} if fig is None else fig if isinstance(fig, dict) else {"": fig}
        captions = (
            caption if isinstance(caption, dict) else dict.fromkeys(list(figures)[:1], caption)
        )
        if set(captions) != set(figures):
            raise ValueError(
                f"{self.name}: figures {sorted(figures)} need a caption each, got "
                f"{sorted(captions)}."
            )
        with contextlib.suppress(ValueError):
            # a picture that the notebook no longer makes must not stay
            for stem in read_record(path)["figures"]:
                for suffix in ("png", "pdf") if f"{stem}_".startswith(f"{self._stem}_") else ():
                    path.with_name(f"{stem}.{suffix}").unlink(missing_ok=True)
        # Ten digits hide the last-bit differences between machines that no reader means.
        csv = frame.to_csv(index=False, lineterminator="\n", float_format="%.10g")
        write_atomically(path.with_suffix(".csv"), csv)
        written = [path.with_suffix(".csv")]
        stems = {key: f"{self._stem}_{key}" if key else self._stem for key in figures}
        for key, one in figures.items():
            for suffix, content in style.render(one).items():
                written.append(self.folder / f"{stems[key]}.{suffix}")
                write_atomically(written[-1], content)
        record = self._record(frame, {stems[key]: captions[key] for key in figures})
        record["files"] = hashes(written)
        if evidence is not None:
            self.claims = record["claims"] = judge_all(
                self.figure["claim"], run_of(record, self.folder), evidence
            )
        write_atomically(path, to_json(record))
        shutil.rmtree(self.folder / ".tasks" / self._stem, ignore_errors=True)
        return path

    def claims_table(self):
        """The claims as judged, for display (see `claims_table`)."""
        return claims_table(self.claims)

    def _hand_over(self, rows):
        """Leave rows for `handful audit`, which compares them with those on record."""
        rows.to_csv(Path(os.environ["HANDFUL_AUDIT_ROWS"]) / f"{time.time_ns()}.csv", index=False)

    def _record(self, frame, figures):
        sha, dirty = commit()
        seeds = frame["seed"].dropna() if "seed" in frame else [self.parameters.get("seed", 0)]
        record = {
            "item": self.name,
            "profile": self.profile,
            "parameters": self.parameters,
            "seeds": sorted({int(s) for s in seeds}),
            "versions": versions(),
            "commit": sha,
            "dirty": dirty,
            "data": self.data,
            "level": level(
                self.data, [d for item in self.figure["item"] for d in item.get("data", [])]
            ),
            "reductions": list(self.reductions),
            "seconds": round(self.seconds, 2),
            "threads": threads(),
            "machine": machine(),
            "facts": self.facts,
            "figures": figures,
            "expected": expected_hash(self.name),
            "claims": [],
        }
        others = sorted(self._commits - {sha})
        return record | ({"commits_of_tasks": others} if others else {})


def read_rows(path):
    """The rows of a record, a data frame."""
    import pandas as pd

    return pd.read_csv(path, keep_default_na=False, na_values=[""])


def run_of(record, folder):
    """What `evidence(run)` sees of a record whose rows lie in `folder`."""
    rows = read_rows(Path(folder) / f"{record['item'].split('/')[1]}.csv")
    return Run(
        rows, record["parameters"], dict(record["facts"]), record["profile"], tuple(record["data"])
    )


def claims_table(claims):
    """Judged claims for display: claim, paper, ours [95 % interval], verdict, how it was judged."""
    import pandas as pd

    columns = {"claim": lambda c: c["text"], "paper": paper_text, "ours": ours_text}
    columns |= {"verdict": verdict_text, "judged by": lambda c: c["why"]}
    table = pd.DataFrame(
        [{k: f(c) for k, f in columns.items()} for c in claims], columns=list(columns)
    )
    # a plain frame would cut the claims short
    return table.style.hide(axis="index").set_uuid("claims")


def ours_text(claim):
    """Our number of a claim as text: effect, 95 % interval, unit: "2.31 [1.9, 2.7] points"."""
    if claim["ours"] is None or isinstance(claim["ours"], str):
        return claim["ours"] or "–"
    exact = (
        claim["low"] is None
        or claim["low"] == claim["high"]
        or not claim["low"] <= claim["ours"] <= claim["high"]
    )
    interval = "" if exact else f" [{number(claim['low'])}, {number(claim['high'])}]"
    return f"{number(claim['ours'])}{interval} {claim['unit']}"


def paper_text(claim):
    """The paper's number of a claim as text, with its unit; words stay as they are."""
    return (
        claim["paper"]
        if isinstance(claim["paper"], str)
        else f"{number(claim['paper'])} {claim['unit']}"
    )


def verdict_text(claim):
    """A verdict with its reason: "cannot tell (noise)"."""
    return f"{claim['verdict']} ({claim['reason']})" if claim["reason"] else claim["verdict"]
