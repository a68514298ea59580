"""What a notebook leaves behind: tidy rows, figures, and a record of parameters, provenance and
claims."""

import contextlib
import inspect
import shutil
import time
from pathlib import Path

from handful_papers.claims import BY_HAND
from handful_papers.entries import figure_entry, papers_data, reductions
from handful_papers.levels import level
from handful_papers.parameters import as_recorded, run_parameters
from handful_papers.provenance import (
    PACKAGES,
    commit,
    expected_hash,
    machine,
    threads,
    to_json,
    versions,
    write_atomically,
)
from handful_papers.records import read_record, run_of
from handful_papers.tasks import Launch, leave_unsaid, run_task, tasks_of, with_arguments, workers
from handful_papers.texts import claims_table
from handful_papers.verdicts import judge_all
from handful_papers.verification import hashes


class Sentences(list):
    """Where a run is smaller than the paper's, as a list that shows itself as one sentence."""

    def __repr__(self):
        return f"Other than in the paper: {'; '.join(self)}." if self else "As in the paper."


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
        self._launch = Launch.current()
        leave_unsaid()
        self.name = name
        self.figure = figure_entry(name)
        paper, self._stem = name.split("/")
        started_by_hand = not self._launch.folder
        folder = Path.cwd() / "results" if started_by_hand else Path(self._launch.folder)
        self.profile = BY_HAND if started_by_hand else folder.name
        self.folder = folder / paper
        again = any(isinstance(value, Experiment) for value in namespace.values())
        self.parameters = run_parameters(name, namespace, again=again)
        self.reductions = Sentences(reductions(name, self.parameters))
        self.claims = []
        self.data = {}
        self.facts = {}
        self._sweeps = []
        self._commits = set()

    def __repr__(self):
        return f"Experiment({self.name!r}, profile={self.profile!r})"

    def use(self, dataset, *, rows=None, instead_of=None):
        """Record a data set's name, checksum and how much of it this run takes; gives the data set
        back.

        Parameters
        ----------
        dataset : handful.data.dataset.Dataset, or anything with `name` and `sha256` (None for
            generated data)
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
            the rows, where the function gives no column of that name. The record keeps settings,
            seeds and `shared`, so that `handful audit` can call the function again
        seeds : ints, or (None,) for a function without `seed`
        n_jobs : int, processes, of one thread each; with ``handful reproduce --dask`` the
            workers of a scheduler run the tasks instead, and keep them if they see the same files
        shared : further arguments, alike for all tasks; plain values, too

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
        # They are gone through more than once.
        settings = list(settings)
        seeds = list(seeds)
        tasks = tasks_of(settings, seeds)
        if not tasks:
            raise ValueError(f"{function.__name__}: no settings or no seeds to sweep over.")
        swept = {
            "function": f"{function.__module__}:{function.__qualname__}",
            "settings": settings,
            "seeds": seeds,
            "shared": shared,
        }
        what = f"{self.name}: arguments of {function.__name__}"
        self._sweeps.append(as_recorded(what, swept))
        folder = self.folder / ".tasks" / self._stem
        run = Memory(folder, verbose=0).cache(run_task, ignore=["folder"])
        key = [inspect.getsource(inspect.getmodule(function)), versions(PACKAGES[1:])]
        with workers(n_jobs, self._launch.dask) as parallel:
            calls = (delayed(run)(function, shared | task, key, str(folder)) for task in tasks)
            bar = tqdm(
                parallel(calls),
                total=len(tasks),
                desc=function.__name__,
                unit="task",
                disable=None,
            )
            results = list(bar)
        frames = []
        for task, (rows, seconds, sha) in zip(tasks, results):
            self._sweep_seconds += seconds
            self._commits |= {sha} - {None}
            if rows:
                frames.append(with_arguments(rows, task))
        self._sweep_wall += time.perf_counter() - start
        return pd.concat(frames, ignore_index=True)

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
        figures, captions = self._figures_and_captions(fig, caption)
        self._remove_pictures(path)
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
            run = run_of(record, self.folder)
            self.claims = judge_all(self.figure["claim"], run, evidence)
            record["claims"] = self.claims
        write_atomically(path, to_json(record))
        shutil.rmtree(self.folder / ".tasks" / self._stem, ignore_errors=True)
        return path

    def _figures_and_captions(self, fig, caption):
        """The figures of `save` and their captions as dicts of the same keys."""
        if fig is None:
            figures = {}
        else:
            figures = fig if isinstance(fig, dict) else {"": fig}
        if isinstance(caption, dict):
            captions = caption
        else:
            captions = dict.fromkeys(list(figures)[:1], caption)
        if set(captions) != set(figures):
            raise ValueError(
                f"{self.name}: figures {sorted(figures)} need a caption each, got "
                f"{sorted(captions)}."
            )
        return figures, captions

    def _remove_pictures(self, path):
        """Remove those of the record that lies there: a picture that the notebook no longer makes
        must not stay."""
        with contextlib.suppress(ValueError):
            for stem in read_record(path)["figures"]:
                if f"{stem}_".startswith(f"{self._stem}_"):
                    for suffix in ("png", "pdf"):
                        path.with_name(f"{stem}.{suffix}").unlink(missing_ok=True)

    def claims_table(self):
        """The claims as judged, for display (see `claims_table`)."""
        return claims_table(self.claims)

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
            "level": level(self.data, papers_data(self.figure)),
            "reductions": list(self.reductions),
            "seconds": round(self.seconds, 2),
            "threads": threads(),
            "machine": machine(),
            "facts": self.facts,
            "figures": figures,
            "expected": expected_hash(self.name),
            "sweeps": self._sweeps,
            "claims": [],
        }
        others = sorted(self._commits - {sha})
        if others:
            record["commits_of_tasks"] = others
        return record
