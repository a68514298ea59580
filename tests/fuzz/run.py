"""``make fuzz``: thousands of inputs for every public class and function, then soak tests; resumable.

Inputs are thrown in processes of their own, so that a crash or an input that does not end costs one input. The outcomes
of a thing are kept in ``.fuzz/`` and not computed again while the code that it can reach and its kinds of arguments are
the same; at the end ``docs/fuzz.md`` is written from them. An input is known by the thing's name and a number::

    python tests/fuzz/run.py --replay handful.sampling.KDPP 17
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
KEPT = ROOT / ".fuzz"
TABLE = ROOT / "docs" / "fuzz.md"
SOAKED = ("handful.streaming.MergeReduce", "handful.streaming.Reservoir", "handful.sampling.MixtureSampler")
SOAKED += ("handful.clustering.VCGMM",)
SLOWEST = 60  # seconds after which one input counts as one that does not end


def stamps(entries):
    """A checksum for each name: of the modules of the library that the thing can reach, its room, and what rooms share."""
    from handful_papers.fingerprint import reachable

    from fuzz import table

    rooms = table.room_of()
    shared = b"".join((TESTS / "fuzz" / f"{name}.py").read_bytes() for name in ("kinds", "throw"))
    found = {}
    for name, entry in entries.items():
        files = [Path(file) for file in reachable(f"import {entry.thing.__module__}").values()]
        room = Path(rooms[name].__file__)
        content = b"".join(file.read_bytes() for file in [room, *sorted(files)])
        found[name] = hashlib.sha256(shared + content).hexdigest()[:12]
    return found


def work():
    """In a worker: throws the inputs that standard input asks for, lines of [name, start, stop]; a JSON line for each."""
    from fuzz import table
    from fuzz.throw import Surprise, throw

    entries = table.entries()
    for line in sys.stdin:
        name, start, stop = json.loads(line)
        for i in range(start, stop):
            print(json.dumps(["begins", i]), flush=True)
            try:
                print(json.dumps([throw(entries[name], name, i), i]), flush=True)
            except Surprise as surprise:
                print(json.dumps(["surprise", i, str(surprise)[:3000]]), flush=True)
        print(json.dumps(["ends", stop]), flush=True)


def hunt(name, n, stamp, workers):
    """Outcomes of the first `n` inputs of one thing, from what is kept and from new runs: counts and surprises."""
    path = KEPT / f"{name}.json"
    state = {}
    if path.is_file():
        state = json.loads(path.read_text(encoding="utf-8"))
    if state.get("code") != stamp:
        state = dict(code=stamp, done=0, worked=0, refused=0, surprises=[], seconds=0.0)
    began = time.monotonic()
    while state["done"] < n:
        _run(name, n, state, workers)
        state["seconds"] += time.monotonic() - began
        began = time.monotonic()
        path.write_text(json.dumps(state), encoding="utf-8")
    return name, state


def _run(name, n, state, workers):
    worker = workers.pop() if workers else Worker()
    last = None
    worker.ask(name, state["done"], n)
    for outcome, i, *message in worker.answers():
        last = i
        if outcome == "ends":
            workers.append(worker)
            return
        if outcome == "begins":
            continue
        state["done"] = i + 1
        if outcome == "surprise":
            state["surprises"].append([i, message[0]])
        else:
            state[outcome] += 1
    at = state["done"] if last is None else last  # the input that was begun ended the process, or did not end
    state["surprises"].append([at, f"{name}, input {at}: {worker.last_words()}"])
    state["done"] = at + 1


class Worker:
    """A process that throws inputs, and is killed when it is silent for too long."""

    def __init__(self):
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  open for as long as the process
        options = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.process = subprocess.Popen([sys.executable, __file__, "--work"], **options)

    def ask(self, name, start, stop):
        """Set it to some inputs of one thing."""
        self.process.stdin.write(json.dumps([name, start, stop]) + "\n")
        self.process.stdin.flush()

    def answers(self):
        """What it says until it ends, or is killed."""
        self.watch = _Watch(self.process)
        for line in self.process.stdout:
            self.watch.tick()
            answer = json.loads(line)
            if answer[0] == "ends":
                self.watch.stop()
            yield answer
        self.watch.stop()

    def last_words(self):
        """Why it ended, and the end of what it wrote to standard error."""
        status = self.process.wait()
        self.errors.seek(0)
        why = "did not end" if self.watch.ended else f"ended the process with status {status}"
        return f"{why}\n{self.errors.read()[-1500:]}"


class _Watch(threading.Thread):
    """Kills a process that is silent for too long; its first word may take twice as long, as it imports and compiles."""

    def __init__(self, process):
        super().__init__(daemon=True)
        self.process, self.ended = process, False
        self._until, self._over = time.monotonic() + 2 * SLOWEST, threading.Event()
        self.start()

    def tick(self):
        """The process said something."""
        self._until = time.monotonic() + SLOWEST

    def stop(self):
        """The process has ended."""
        self._over.set()
        self.join()

    def run(self):
        while not self._over.wait(1.0):
            if time.monotonic() > self._until:
                self.ended = True
                self.process.kill()
                return


def long_runs(entries):
    """The lines of the soak tests, from what is kept while their code is the same, or from a new run."""
    from fuzz import soak

    path, found = KEPT / "long runs.json", stamps(entries)
    code = [Path(soak.__file__).read_text(encoding="utf-8"), *(found[name] for name in SOAKED)]
    kept = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if kept.get("code") != code:
        kept = dict(code=code, lines=soak.run())
        path.write_text(json.dumps(kept), encoding="utf-8")
    return kept["lines"]


def write_table(states, extra):
    """``docs/fuzz.md`` from the outcomes."""
    rows = [
        f"| `{name}` | {s['done']:,} | {s['worked']:,} | {s['refused']:,} | {len(s['surprises'])} |"
        for name, s in states
    ]
    total = {key: sum(s[key] for _, s in states) for key in ("done", "worked", "refused")}
    surprises = sum(len(s["surprises"]) for _, s in states)
    text = f"""# What a hunt for faults found

Written by `make fuzz` from its outcomes, do not edit. Every public class and function got generated inputs: containers,
types, layouts, magnitudes, weights, sizes, seeds and options, good and odd. An input *worked* if it gave finite numbers
for which the thing's own invariants hold; it was *refused* if a ValueError or TypeError named what was odd about it.
Anything else is a *surprise*: another error, a warning of overflow, NaN, a broken invariant, bad input that was taken, a
crash, or more than {SLOWEST} seconds. `tests/fuzz/run.py --replay NAME NUMBER` repeats an input; the name and the number seed
all that is random in it.

{total["done"]:,} inputs for {len(states)} classes and functions: {total["worked"]:,} worked, {total["refused"]:,} were refused by name, {surprises} surprised.

| class or function | tried | worked | refused | surprised |
|---|---|---|---|---|
"""
    text += "\n".join(rows) + "\n"
    if extra:
        text += "\n## Long runs\n\n" + "\n".join(f"- {line}" for line in extra) + "\n"
    TABLE.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--inputs", type=int, default=2000, help="for each class and function")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="part of a name")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so long; run again to go on")
    parser.add_argument("--no-long-runs", action="store_true", help="leave out the soak tests")
    parser.add_argument("--replay", nargs=2, metavar=("NAME", "NUMBER"))
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path.insert(0, str(TESTS))
    if options.work:
        return work()
    from fuzz import table

    if options.replay:
        from fuzz.throw import throw

        name, number = options.replay
        print(throw(table.entries()[name], name, int(number)))
        return 0
    KEPT.mkdir(exist_ok=True)
    until = time.monotonic() + 60 * options.minutes
    entries = {name: entry for name, entry in table.entries().items() if options.only in name}
    stamp = stamps(entries)
    states, late, workers = [], [], []

    def one(name):
        if time.monotonic() > until:
            return late.append(name)
        _, state = hunt(name, options.inputs, stamp[name], workers)
        print(
            f"{name}: {state['worked']} worked, {state['refused']} refused, {len(state['surprises'])} surprised "
            f"({state['seconds']:.0f} s)",
            flush=True,
        )
        for _, message in state["surprises"][:3]:
            print("  " + message.replace("\n", "\n  "), flush=True)
        states.append((name, state))

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(one, entries))
    if late:
        print(f"{len(late)} of {len(entries)} are left; run again to go on.")
        return 2
    extra = []
    if not options.no_long_runs and not options.only:
        extra = long_runs(entries)
    if not options.only:
        write_table(sorted(states), extra)
    return int(any(state["surprises"] for _, state in states))


if __name__ == "__main__":
    sys.exit(main())
