"""What `handful reproduce` shows while it runs and at its end: a line a notebook, and the time left."""

import sys
import textwrap


class Progress:
    """A line for each notebook that finished, and which run: a bar on a terminal, elsewhere a line for each start."""

    def __init__(self, runs, limit, jobs=1):
        from tqdm import tqdm

        self.runs, self.limit, self.jobs = runs, limit, jobs
        self.live = sys.stderr.isatty()
        shown = {"unit": "notebook", "disable": not self.live, "bar_format": "{n}/{total} |{bar:24}| {desc}"}
        self.bar = tqdm(total=len(runs), **shown)
        self.told, self.begun = set(), set()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.bar.close()

    def show(self, outcomes, active):
        """What `runner.reproduce` tells: outcomes so far and what is under way."""
        for outcome in outcomes:
            if outcome.run.name not in self.told:
                self.told.add(outcome.run.name)
                self._tell(line(outcome))
                self.bar.update()
        if not self.live:
            for run, seconds, _ in active:
                if (begun := (run.name, seconds is None)) not in self.begun:
                    self.begun.add(begun)
                    self._tell(self._start(run, seconds))
        left = f"{_clock(seconds_left(self.runs, outcomes, active, self.jobs))} left"
        self.bar.set_description_str("; ".join([left, *(_under_way(*one) for one in active)]))

    def _start(self, run, seconds):
        from handful_papers.runner import time_limit

        if seconds is None:
            return f"  {'waiting':<11} {run.name:<36} another process runs it"
        limit = in_minutes(time_limit(run, self.limit))
        return f"  {'started':<11} {run.name:<36} expected: {in_minutes(run.minutes)} min, at most {limit}"

    def _tell(self, line):
        self.bar.write(line, file=sys.stdout)
        sys.stdout.flush()  # whoever reads a pipe should not wait for a full buffer


def seconds_left(runs, outcomes, active, jobs=1):
    """Seconds until all notebooks have finished: their expected minutes, at the pace of those that have.

    Parameters
    ----------
    runs : list of Run, all of them
    outcomes, active : as `runner.reproduce` tells them
    jobs : int, notebooks at a time
    """
    done = [o for o in outcomes if o.status == "done"]
    expected = 60 * sum(o.run.minutes for o in done)
    pace = sum(o.seconds for o in done) / expected if expected else 1.0
    over, left = {o.run.name for o in outcomes}, 0.0
    begun = {run.name: (seconds or 0.0, progress) for run, seconds, progress in active}
    for run in runs:
        if run.name not in over:
            seconds, progress = begun.get(run.name, (0.0, None))
            left += progress["left"] if progress else max(60 * run.minutes * pace - seconds, 0.0)
    return left / jobs


def _under_way(run, seconds, progress):
    if seconds is None:
        return f"{run.name} waits for another process that runs it"
    tasks = f", {progress['done']}/{progress['total']} tasks, {_clock(progress['left'])} left" if progress else ""
    return f"{run.name} {_clock(seconds)} of {_clock(60 * run.minutes)}{tasks}"


def _clock(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def line(outcome):
    """What became of a notebook, in one line."""
    taken = f"{in_minutes(outcome.seconds / 60)} min (expected {in_minutes(outcome.run.minutes)})"
    details = {
        "done": taken,
        "unchanged": "not run again; --force would",
        "interrupted": "will run next time",
        "not started": "will run next time",
        "failed": f"{taken}: {outcome.error['error'] if outcome.error else ''}",
    }
    return f"  {outcome.status:<11} {outcome.run.name:<36} {details[outcome.status]}"


def summary(outcomes):
    """How many notebooks ended in which way, and why those failed that did, as lines of text."""
    counts = {}
    for outcome in outcomes:
        counts[outcome.status] = counts.get(outcome.status, 0) + 1
    lines = ["", ", ".join(f"{n} {status}" for status, n in counts.items()) + "."]
    for outcome in outcomes:
        if outcome.status == "failed":
            where = f", cell {outcome.error['cell']}" if outcome.error["cell"] else ""
            lines += ["", f"{outcome.run.name} failed{where}: {outcome.error['error']}"]
            lines += [textwrap.indent(outcome.error["traceback"].strip(), "    ")] * bool(outcome.error["traceback"])
    return "\n".join(lines)


def in_minutes(value):
    """Minutes as text: one decimal below ten."""
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"
