"""Runs notebooks: a plain loop over papermill, which goes on after a failure; and compares what
they leave."""

import base64
import io
import json
import os
import re
import tempfile
import time
from dataclasses import dataclass
from fnmatch import fnmatch, fnmatchcase
from pathlib import Path

import numpy as np

from handful_papers.claims import judge_all
from handful_papers.experiment import GPU, figure, names, read_rows, reductions, run_of
from handful_papers.parameters import NOTEBOOKS, cell_parameters
from handful_papers.provenance import ROOT, commit, expected_hash, to_json, write_atomically
from handful_papers.records import read_record
from handful_papers.verification import changed, vouch_for

FIGURES = ROOT / "figures"
# the largest first; quick results are build output: a fresh clone has none
COMMITTED = ("paper", GPU, "laptop")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
# Where a checkout, an environment or a kernel's cells lie.
_HERE = re.compile(
    r"(?:/[\w.+-]+)+/"
    r"(?:(?=(?:data|figures|lib|notebooks|site-packages)/)|ipykernel_\d+/\d+\.py:\d+: )"
)
# colours of a picture in an executed notebook; the figures beside it have all
_SHADES = 64


@dataclass(frozen=True)
class Planned:
    """One notebook at one profile: what papermill is given, the value of every parameter, and the
    expected minutes."""

    name: str
    profile: str
    given: dict
    parameters: dict
    minutes: float


def plan(profile, only=()):
    """What `handful reproduce` runs, as a list of `Planned`; of profile gpu those figures that have
    it.

    Parameters
    ----------
    only : list of str, each a part of "<paper>/<figure>", or a pattern with * and ?; empty for all

    Raises
    ------
    ValueError
        for a pattern that matches nothing, an entry or a parameters cell that is not as it should
        be.
    """
    chosen = {
        p: [n for n in names() if p in n or fnmatch(n, p) or fnmatch(n.split("/")[1], p)]
        for p in only
    }
    if lost := [pattern for pattern, found in chosen.items() if not found]:
        raise ValueError(f"no notebook matches {lost[0]!r}; there are: {', '.join(names())}.")
    wanted = [n for n in names() if not only or any(n in found for found in chosen.values())]
    return [_plan(n, profile) for n in wanted if profile != GPU or GPU in figure(n)["profiles"]]


def check_gpu(runs):
    """ValueError where profile gpu has nothing to run, or torch no GPU to run it on."""
    import torch

    if not runs:
        having = ", ".join(n for n in names() if GPU in figure(n)["profiles"])
        raise ValueError(f"profile gpu is of {having} alone: take another profile.")
    if not torch.cuda.is_available():
        raise ValueError(
            "profile gpu needs a CUDA device, and torch finds none: profile laptop is for a CPU."
        )


def _plan(name, profile):
    given = dict(figure(name)["profiles"][profile])
    minutes = float(given.pop("minutes"))
    cell = cell_parameters(NOTEBOOKS / f"{name}.ipynb")
    # papermill would only warn, and keep the old value
    if unknown := sorted(set(given) - set(cell)):
        raise ValueError(
            f"{name}: profile {profile} sets {', '.join(unknown)}; the cell has: {', '.join(cell)}."
        )
    return Planned(name, profile, given, cell | given, minutes)


def stale(record, run):
    """Why a record would come out otherwise now, "" if it is current: its parameters or its quick
    numbers changed."""
    keys = sorted(k for k in {*record["parameters"], *run.parameters})
    if differ := [k for k in keys if record["parameters"].get(k) != run.parameters.get(k)]:
        return f"parameters {', '.join(differ)} changed"
    return "" if record["expected"] == expected_hash(run.name) else "its quick numbers moved"


def reproduce(runs, *, figures=FIGURES, jobs=1, force=False, tell=print):
    """Run notebooks whose record is not current; one that fails does not stop the others.

    At profile quick a record counts as current only if this very commit made it, as quick runs are
    to test the code.

    Parameters
    ----------
    runs : list of Planned
    figures : pathlib.Path, where results go, in ``<profile>/<paper>/``
    jobs : int, notebooks at a time
    force : run what is current, too
    tell : function of a line of text

    Returns
    -------
    dict : name -> "" if it ran, "current", or what went wrong
    """
    from joblib import Parallel, delayed

    figures = Path(figures).resolve()
    outcomes = {}
    for run in runs:
        if not force and _is_current(run, figures):
            outcomes[run.name] = "current"
    due = [run for run in runs if run.name not in outcomes]
    threads = max(
        1,
        (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())
        // jobs,
    )
    expected = {run.name: run.minutes for run in due}
    quiet = sum(expected.values()) / jobs
    tell(
        f"{len(runs)} notebooks, {len(due)} to run: about {quiet:.3g} min where nothing else runs."
    )
    if jobs > 1:
        # the longest first, so that no core idles at the end
        due.sort(key=lambda run: -run.minutes)
    found = Parallel(jobs, return_as="generator_unordered")(
        delayed(_execute)(run, figures, threads) for run in due
    )
    timed = []
    for i, (name, error, seconds) in enumerate(found, 1):
        outcomes[name] = error
        minutes = expected.pop(name)
        if not error:
            timed.append((minutes, seconds / 60))
        left = minutes_left(timed, expected.values(), jobs)
        more = f"; about {left:.2g} min left" if expected else ""
        tell(f"[{i}/{len(due)}] {name}: {error or 'done'} ({seconds / 60:.1f} min){more}")
    return outcomes


def minutes_left(timed, expected, jobs):
    """Minutes until the other notebooks have run: those expected, times what the finished ones took
    over theirs.

    Parameters
    ----------
    timed : list of (expected, taken), minutes of the notebooks that have run
    expected : minutes of the others
    jobs : int, notebooks at a time
    """
    planned = sum(one for one, _ in timed)
    taken = sum(one for _, one in timed)
    slower = taken / planned if planned else 1.0
    return slower * sum(expected) / jobs


def _is_current(run, figures):
    path = figures / run.profile / f"{run.name}.json"
    try:
        record = _whole(path)
    except ValueError:
        return False
    if changed(path, record):
        return False
    return not stale(record, run) and (
        run.profile != "quick" or (record["commit"], record["dirty"]) == (commit()[0], False)
    )


def _execute(run, figures, threads):
    """(name, error, seconds) of one notebook; a failed run's notebook is kept as
    ``<figure>.failed.ipynb``."""
    import nbformat

    start = time.perf_counter()
    folder = figures / run.profile
    target = folder / f"{run.name}.ipynb"
    record = target.with_suffix(".json")
    running = target.with_suffix(".running.ipynb")
    stamp = record.stat().st_mtime_ns if record.is_file() else None
    error = _papermill(
        run, running, folder, {name: os.environ.get(name, str(threads)) for name in THREADS}
    )
    try:
        if not error and (not record.is_file() or record.stat().st_mtime_ns == stamp):
            error = (
                "failed: it ran, but saved no results: its last cell calls `save` of its Experiment"
            )
        if not error:
            read_record(record)
            write_atomically(target, tidy(nbformat.read(running, as_version=4)))
            vouch_for(record, target)
            running.unlink()
    except (OSError, ValueError) as problem:
        error = f"failed: its results cannot be kept: {problem}"
    failed = target.with_suffix(".failed.ipynb")
    failed.unlink(missing_ok=True)
    if running.is_file():
        running.replace(failed)
    return run.name, error, time.perf_counter() - start


def _papermill(run, output, folder, environment):
    """Run a notebook, its results going to `folder`; what went wrong, "" where nothing did."""
    import papermill

    source = NOTEBOOKS / f"{run.name}.ipynb"
    before = dict(os.environ)
    os.environ |= environment | {
        "HANDFUL_RECORDS": str(folder),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        # a notebook that is committed shows no bar
        "TQDM_DISABLE": "1",
    }
    try:
        Path(output).parent.mkdir(parents=True, exist_ok=True)
        options = dict(
            kernel_name="python3", language="python", progress_bar=False, cwd=str(source.parent)
        )
        # seconds: on a busy machine a kernel is long in coming
        options["start_timeout"] = 600
        # each kernel warns of its ports, and of its end
        options["extra_arguments"] = ["--log-level=ERROR"]
        papermill.execute_notebook(str(source), str(output), run.given, **options)
    except Exception as error:
        # whatever goes wrong in a notebook must not stop the others
        cell = f", cell {error.exec_count}" if getattr(error, "exec_count", None) else ""
        told = f"{error.ename}: {error.evalue}" if hasattr(error, "ename") else repr(error)
        return f"failed{cell}: {told}"
    finally:
        os.environ.clear()
        os.environ.update(before)
    return ""


def tidy(notebook):
    """An executed notebook as text: no traces of the machine or the run, no repeated warnings,
    small pictures.

    No picture is left out.
    """
    notebook.metadata = {
        k: v for k, v in notebook.metadata.items() if k in ("kernelspec", "language_info")
    }
    told = set()
    for cell in notebook.cells:
        cell.metadata = {k: v for k, v in cell.metadata.items() if k == "tags" and v}
        kept = []
        for output in cell.get("outputs", ()):
            picture = output.get("data", {}).pop("image/png", None)
            output = json.loads(_HERE.sub("", json.dumps(output, ensure_ascii=False)))
            text = "".join(output.get("text", "")) if output.get("name") == "stderr" else ""
            if picture:
                output["data"]["image/png"] = _fewer_colours(picture)
            if not text or text not in told:
                kept.append(output)
            told.add(text)
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = kept, cell.get("execution_count")
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _fewer_colours(encoded):
    from PIL import Image

    with Image.open(io.BytesIO(base64.b64decode("".join(encoded)))) as picture:
        if picture.mode == "P":
            return encoded
        small = picture.convert("RGB").quantize(_SHADES, dither=Image.Dither.NONE)
        buffer = io.BytesIO()
    small.save(buffer, format="png", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode() + "\n"


def records(figures=FIGURES, profiles=COMMITTED):
    """The records of a folder, (path, record) by figure and profile; and a sentence for each that
    is refused."""
    found = []
    refused = []
    for name in names():
        for profile in profiles:
            path = Path(figures) / profile / f"{name}.json"
            if path.is_file():
                try:
                    found.append((path, _whole(path)))
                except ValueError as error:
                    refused.append(str(error))
    return found, refused


def _whole(path):
    # The record of a profile's folder, with its executed notebook; ValueError names the file that
    # is damaged.
    record = read_record(path)
    executed = path.with_suffix(".ipynb")
    if record["profile"] != path.parent.parent.name:
        raise ValueError(f"{path} is no record of this profile, but of {record['profile']!r}")
    if executed.is_file():
        _read_notebook(executed)
    return record


def _read_notebook(path):
    import nbformat

    try:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
    except Exception as error:
        # of a damaged file nbformat raises whatever comes first
        raise ValueError(f"{path} is no notebook: {error!r:.200}") from error
    return notebook


def judge_again(path):
    """Judge a record again from its rows and parameters, by what is declared now; whether its
    verdicts changed.

    Rows, pictures and executed notebook stay: they are what ran.

    Raises
    ------
    ValueError
        naming the file, where it is damaged or its rows and claims do not go together.
    """
    from importlib import import_module

    record = read_record(path)
    rows = path.with_suffix(".csv")
    if rows.name in changed(path, record):
        raise ValueError(f"{rows} cannot be judged: it is not what the run left")
    claims = figure(record["item"])["claim"]
    judged = []
    if claims:
        evidence = import_module(f"handful_papers.{record['item'].replace('/', '.')}").evidence
        try:
            judged = judge_all(claims, run_of(record, path.parent), evidence)
        except Exception as error:
            # of damaged rows `evidence` raises whatever comes first
            raise ValueError(f"{rows} cannot be judged: {error!r:.200}") from error
    record |= {"claims": judged, "reductions": reductions(record["item"], record["parameters"])}
    new = to_json(record)
    moved = new != path.read_text(encoding="utf-8")
    if moved:
        write_atomically(path, new)
    return moved


def audit(share, only=(), figures=FIGURES, tell=print):
    """Run a random share of the committed records' tasks with today's code, and compare the rows
    with those on record.

    Parameters
    ----------
    share : float, of the tasks of each sweep, at least one

    Returns
    -------
    dict : name -> list of sentences, what differs by more than 1e-6 relative; empty where all is as
        it was
    """
    found = {}
    for profile in COMMITTED:
        for run in plan(profile, only):
            rows = figures / profile / f"{run.name}.csv"
            if not rows.is_file():
                continue
            record = read_rows(rows)
            rules = figure(run.name)["expected"]
            with tempfile.TemporaryDirectory() as folder:
                given = {"HANDFUL_AUDIT": str(share), "HANDFUL_AUDIT_ROWS": folder}
                # Cells after a sweep may fail for rows that were not run; the sweeps have left
                # theirs by then.
                error = _papermill(run, Path(folder) / "out.ipynb", figures / profile, given)
                parts = [read_rows(path) for path in sorted(Path(folder).glob("*.csv"))]
            # rows of a sweep that go into a summary alone have none of the figure's keys
            pairs = [
                at_equal_keys(part, record, rules)
                for part in parts
                if set(rules["keys"]) & set(part)
            ]
            found[run.name] = [sentence for pair in pairs for sentence in compare(*pair)]
            n = sum(len(ours) for ours, _, _ in pairs)
            if not n:
                found[run.name] = [
                    f"nothing could be compared: {error or 'no sweep has rows of the figure'}"
                ]
            tell(f"{run.name}: {'; '.join(found[run.name]) or f'{n} rows as on record'}")
    return found


def at_equal_keys(rows, record, rules):
    """What `compare` takes to audit rows: those whose keys stand exactly once in a record, the
    record's, and the rules.

    The rules allow 1e-6 relative, where the figure's own are there for other machines.
    """
    keys = [k for k in rules["keys"] if k in rows and k in record]
    exact = dict(rtol=1e-6, atol=1e-12, reason="audit")
    columns = {
        c: exact
        for c, rule in by_column(rules, rows).items()
        if isinstance(rule, dict) and c in record
    }
    ours, theirs = (
        frame.astype(dict.fromkeys(keys, str))
        .drop_duplicates(keys, keep=False)
        .set_index(keys)[list(columns)]
        for frame in (rows, record)
    )
    both = ours.index[ours.index.isin(theirs.index)]
    return *(frame.loc[both].reset_index(drop=True) for frame in (ours, theirs)), columns


def by_column(rules, columns):
    """Column -> its rule: that of its name, else of the first pattern with * that it matches;
    seconds are ignored."""
    patterns = rules | {"*seconds*": "time"}
    found = {
        c: rules.get(c) or next((r for p, r in patterns.items() if fnmatchcase(c, p)), None)
        for c in columns
    }
    return {
        c: rule for c, rule in found.items() if rule is not None and c not in rules.get("keys", [])
    }


def compare(rows, reference, rules):
    """What differs between rows and the expected ones, as a list of sentences.

    Parameters
    ----------
    rows, reference : pandas.DataFrame
    rules : dict, `keys`, a list of columns that must be equal row by row; and for other columns or
        patterns of them, but those of seconds, a dict with rtol, atol, off (the share of rows that
        may be off by more) and reason, or a str: why they are ignored
    """
    keys = rules.get("keys", [])
    columns = by_column(rules, rows)
    idle = [
        p for p in rules if p != "keys" and not any(c == p or fnmatchcase(c, p) for c in columns)
    ]
    bare = [c for c, r in columns.items() if not (r if isinstance(r, str) else r.get("reason"))]
    problems = [f"the rule for {c} gives no reason" for c in bare]
    ruled = [*keys, *columns, *idle]
    if sorted(ruled) != sorted(rows) or list(rows) != list(reference):
        return [
            *problems,
            f"columns differ: {list(rows)}, expected {list(reference)}, rules for {ruled}",
        ]
    if len(rows) != len(reference):
        return [*problems, f"{len(rows)} rows, expected {len(reference)}"]
    for key in (k for k in keys if not rows[k].equals(reference[k])):
        at = int((rows[key] != reference[key]).idxmax())
        problems.append(
            f"{key} differs, first in row {at}: {rows[key][at]!r}, expected {reference[key][at]!r}"
        )
    for column, rule in ((c, r) for c, r in columns.items() if not isinstance(r, str)):
        ours = rows[column].to_numpy(float)
        theirs = reference[column].to_numpy(float)
        close = np.isclose(
            ours, theirs, rtol=rule.get("rtol", 0), atol=rule.get("atol", 0), equal_nan=True
        )
        if (~close).sum() > rule.get("off", 0.0) * len(rows):
            worst = int(np.nanargmax(np.where(close, -1, np.abs(ours - theirs))))
            told = f"most in row {worst}: {ours[worst]}, expected {theirs[worst]}"
            problems.append(f"{column} differs in {(~close).sum()} of {len(rows)} rows, {told}")
    return problems
