"""Ratios of running times measured side by side, and the tables they go into.

Run each script with one thread (`make bench` does): absolute seconds depend on the machine and its
neighbours, so candidates and yardstick take turns (A B A B ...) and the medians are divided.
"""

import gc
import json
import os
import statistics
import sys
import time
from pathlib import Path

from handful_papers import provenance

RESULTS = Path(__file__).parent / "results"
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


def peak_memory():
    """MiB, the peak of this process's own resident memory (Linux).

    `resource.getrusage` would count that of the process by which this one was started, too.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(line for line in lines if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 1024


class Bench:
    """One table of ratios and qualities, written to results/<name>.json and .md.

    Parameters
    ----------
    name : str, of the table
    title : str, its heading
    """

    def __init__(self, name, title):
        if any(os.environ.get(v) != "1" for v in THREAD_VARIABLES):
            sys.exit(f"Set {', '.join(THREAD_VARIABLES)} to 1 first, or run `make bench`.")
        self.name = name
        self.title = title
        self.rows = []
        self.notes = []
        self._load = os.getloadavg()[0]

    def note(self, text):
        """A paragraph below the table, such as what limits a number."""
        self.notes.append(text)

    def time(self, what, candidates, yardstick, *, bars, repeats=5, clock=time.perf_counter):
        """Median seconds of each candidate over those of the yardstick.

        Parameters
        ----------
        what : str, the case: "phishing, m = 100"
        candidates : dict, name -> function without arguments
        yardstick : (name, function)
        bars : dict, name -> largest ratio aimed at, or None
        repeats : int, turns; a first one that compiles and fills caches is not counted
        clock : `time.process_time` where all work is done in this process, so that neighbours count
            less

        Returns
        -------
        dict, name -> ratio
        """
        base, run_base = yardstick
        functions = {base: run_base, **candidates}
        seconds = {name: [] for name in functions}
        for turn in range(repeats + 1):
            for name, function in functions.items():
                gc.collect()
                start = clock()
                function()
                if turn:
                    seconds[name].append(clock() - start)
        medians = {name: statistics.median(s) for name, s in seconds.items()}
        ratios = {name: medians[name] / medians[base] for name in candidates}
        for name, ratio in ratios.items():
            self._add(
                what,
                name,
                ratio,
                f"x {base}",
                bars.get(name),
                "<=",
                repeats=repeats,
                seconds=seconds,
            )
        return ratios

    def value(self, what, name, value, *, unit="", bar=None, direction="<="):
        """A quality beside its bar: a loss, an accuracy, a memory peak."""
        self._add(what, name, float(value), unit, bar, direction)

    def gains(self, what, reached, over):
        """Accuracies of one candidate, and how many points more each other one has on average, with
        the standard error of the differences, which are paired by seed.

        Parameters
        ----------
        what : str, the case
        reached : dict, name -> accuracies in %, an array with an entry for each seed
        over : str, the name in `reached` that the others are compared with
        """
        for name, values in reached.items():
            if name == over:
                self.value(what, name, values.mean(), unit="% accuracy")
            else:
                gain = values - reached[over]
                error = gain.std(ddof=1) / len(gain) ** 0.5
                self.value(what, name, gain.mean(), unit=f"points more ± {error:.1f}")

    def _add(self, what, name, value, unit, bar, direction, **details):
        met = None if bar is None else value <= bar if direction == "<=" else value >= bar
        self.rows.append(
            dict(
                case=what,
                name=name,
                value=value,
                unit=unit,
                bar=bar,
                direction=direction,
                met=met,
                **details,
            )
        )
        print(f"{what:32} {name:28} {value:9.4g} {unit:34} {_bar(self.rows[-1])}", flush=True)

    def write(self, *, runs="medians of interleaved runs", **more):
        """Write the table, which says what its numbers are of; `more` goes into the record
        (checksums, parameters)."""
        sha, dirty = provenance.commit()
        record = dict(
            title=self.title,
            commit=sha,
            dirty=dirty,
            versions=provenance.versions(),
            machine=provenance.machine(),
            threads=1,
            runs=runs,
            load_average=[self._load, os.getloadavg()[0]],
            rows=self.rows,
            notes=self.notes,
            **more,
        )
        lines = [
            f"# {self.title}",
            "",
            "| case | what | measured | | bar |",
            "|---|---|---:|---|---|",
        ]
        lines += [
            f"| {r['case']} | {r['name']} | {r['value']:.4g} | {r['unit']} | {_bar(r)} |"
            for r in self.rows
        ]
        lines += [
            "",
            *(line for note in self.notes for line in (note, "")),
            f"One thread; {runs}. The counts, all seconds and the machine's load are in "
            f"`benchmarks/results/{self.name}.json`.",
            "",
        ]
        provenance.write_atomically(
            RESULTS / f"{self.name}.json", json.dumps(record, indent=1) + "\n"
        )
        provenance.write_atomically(RESULTS / f"{self.name}.md", "\n".join(lines))


def _bar(row):
    if row["bar"] is None:
        return ""
    return (
        f"{row['direction'].replace('<=', '≤').replace('>=', '≥')} {row['bar']:g}: "
        f"{'met' if row['met'] else 'missed'}"
    )
