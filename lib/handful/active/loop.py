"""`ActiveLoop`: train, ask for labels, and again; every answer is saved at once, so that work can
be resumed."""

import json
import os
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np

from handful.checks import check_integer
from handful.options import explained
from handful.running import warn

VERSION = 1


class ActiveLoop:
    """Keeps the labels of a pool of points, and asks for more, a batch at a time.

    A function trains on the labelled points and proposes a batch; a person or a program labels its
    points one by one. With a `path` each label is written to disk at once, and a new loop with this
    path goes on with the next one. Several sessions may share the file, two people for example:
    each reads what the others wrote before it writes, and a batch that one has begun is the batch
    of all. Of two answers to one point the later one stays.

    Parameters
    ----------
    propose : callable
        A function ``(labelled, labels, pool, n) -> indices``; trains on the points `labelled`
        (int array) with their `labels`, and gives `n` points of `pool` (int array, the points
        without an answer) to label next. What chooses among rows ``X[pool]`` gives places within
        the pool: its points are ``pool[chosen]``.
    n_pool : int
        Number of points.
    classes : array-like
        List or array of the labels that may be given, such as ``np.unique(y)``: all words, or
        none of them; not None, which skips a point.
    batch_size : int, default=10
        Points asked for at a time; the paper: 10.
    path : path or None, default=None
        The file of answers (JSON); None writes none. Beside it lies an empty file,
        ``<path>.lock``.

    Attributes
    ----------
    answers : dict, point -> label, in the order of labelling; None where a point was skipped
    pending : list of the points that were asked for and have no answer
    rounds : list of lists, the batches so far. These three hold what other sessions wrote, too, as
        of the last `next` or `label`

    Examples
    --------
    >>> loop = ActiveLoop(lambda labelled, labels, pool, n: pool[:n], n_pool=100, classes="ab")
    >>> loop.run(lambda i: "ab"[i % 2], n_rounds=3)
    >>> len(loop.labelled)
    30
    """

    _elsewhere = {
        "rows": "the number of points is n_pool",
        "n_rows": "the number of points is n_pool",
        "labels": "the labels that may be given are classes",
        "names": "the labels that may be given are classes",
        "answers": "the file of answers is path",
        "file": "the file of answers is path",
        "query": "the function that gives the next points is propose",
    }

    @explained
    def __init__(self, propose, *, n_pool, classes, batch_size=10, path=None):
        if not callable(propose):
            raise TypeError(
                "propose must be a function (labelled, labels, pool, n) -> indices, got "
                f"{propose!r}; of an acquisition function, one that returns pool[chosen] of its "
                "chosen = query(n, ...)."
            )
        check_integer("n_pool", n_pool)
        check_integer("batch_size", batch_size, most=n_pool, why="the pool has no more points")
        self.classes = _checked_classes(classes)
        self._keys = list(map(_key, self.classes))
        self.propose = propose
        self.n_pool = int(n_pool)
        self.batch_size = int(batch_size)
        self.path = None if path is None else Path(path)
        self.answers = {}
        self.pending = []
        self.rounds = []
        if self.path is not None and self.path.exists():
            with self._shared():
                pass

    @property
    def labelled(self):
        """Points with a label, int array, in the order of labelling."""
        return np.array(
            [i for i, label in self.answers.items() if label is not None], dtype=np.intp
        )

    @property
    def labels(self):
        """Their labels, an array."""
        return np.array([label for label in self.answers.values() if label is not None])

    @property
    def skipped(self):
        """Points that were skipped; they are not asked for again."""
        return np.array([i for i, label in self.answers.items() if label is None], dtype=np.intp)

    def next(self):
        """The points to label now, a list: the pending ones or, if there are none, a new batch;
        empty at the end.

        Where another session begins a batch while `propose` is at work, that batch is the next one.
        """
        with self._shared():
            pass
        while not self.pending:
            pool = np.setdiff1d(np.arange(self.n_pool), list(self.answers))
            if len(pool) == 0:
                return []
            n = min(self.batch_size, len(pool))
            n_rounds = len(self.rounds)
            # without the lock: it may take long
            chosen = np.asarray(self.propose(self.labelled, self.labels, pool, n))
            if (
                chosen.dtype.kind not in "iu"
                or chosen.shape != (n,)
                or len(np.intersect1d(chosen, pool)) < n
            ):
                raise ValueError(
                    f"propose must give {n} different points of the pool it is given, got {chosen}"
                    f"{_of_places(chosen, pool)}."
                )
            with self._shared() as save:
                if len(self.rounds) == n_rounds:
                    self.pending = [i for i in chosen.tolist() if i not in self.answers]
                    self.rounds.append(chosen.tolist())
                    save()
        return list(self.pending)

    def label(self, index, label):
        """Answer for one point: a label, or None to skip it. A later answer replaces an earlier
        one.

        A UserWarning says so where the earlier one came from another session since this one last
        looked.

        Raises
        ------
        ValueError
            for a point outside the pool, a label that is not among `classes`, and a file that holds
            no answers any more
        """
        check_integer(
            "index", index, least=0, most=self.n_pool - 1, why="it is a point of the pool"
        )
        index = int(index)
        label = None if label is None else self._class_of(label)
        known = dict(self.answers)
        with self._shared() as save:
            before = self.answers.get(index)
            foreign = index in self.answers and (
                index not in known or _key(known[index]) != _key(before)
            )
            self.answers[index] = label
            if index in self.pending:
                self.pending.remove(index)
            save()
        if foreign and _key(before) != _key(label):
            warn(
                f"point {index} was answered by another session, {before!r}; the later answer "
                f"stays, {label!r}.",
            )

    def _class_of(self, label):
        # The class that an answer names: 1, 1.0 and True are one.
        if _key(label) in self._keys:
            return self.classes[self._keys.index(_key(label))]
        equal = [c for c in self.classes if np.ndim(label) == 0 and c == label]
        if not equal:
            raise ValueError(f"label must be one of {self.classes} (None to skip), got {label!r}.")
        return equal[0]

    def run(self, answer, *, n_rounds):
        """Label `n_rounds` batches by a function ``answer(index) -> label``; a batch begun before
        is the first."""
        check_integer("n_rounds", n_rounds, least=0)
        for _ in range(n_rounds):
            for index in self.next():
                # another session may have answered meanwhile
                if index in self.pending:
                    self.label(index, answer(index))

    @contextmanager
    def _shared(self):
        """Context that begins with what the file holds and gives the function that saves; no other
        session is in it."""
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        with (
            nullcontext()
            if self.path is None
            else locked(self.path.with_name(self.path.name + ".lock"))
        ):
            if self.path is not None and self.path.exists():
                self._load()
            yield self._save

    def _save(self):
        if self.path is None:
            return
        state = {"version": VERSION, "n_pool": self.n_pool, "classes": self.classes}
        state |= {
            "answers": list(self.answers.items()),
            "pending": self.pending,
            "rounds": self.rounds,
        }
        part = self.path.with_name(self.path.name + ".part")
        with open(part, "w", encoding="utf-8") as file:
            json.dump(state, file, default=str)
            file.flush()
            os.fsync(file.fileno())
        # The file is never half written: who is stopped before this line loses the one answer that
        # is being given.
        os.replace(part, self.path)

    def _load(self):
        # What a file holds is checked before anything is taken from it.
        try:
            state = json.loads(self.path.read_text(encoding="utf-8"))
            own = {"version": VERSION, "n_pool": self.n_pool, "classes": self.classes}
            found = {key: state[key] for key in own}
            answers = dict(state["answers"])
            pending = list(state["pending"])
            rounds = list(map(list, state["rounds"]))
            asked = [*answers, *pending, *(i for batch in rounds for i in batch)]
            twice = len({*answers, *pending}) < len(answers) + len(pending)
            if not all(type(i) is int and 0 <= i < self.n_pool for i in asked) or twice:
                raise ValueError("its points are not those of the pool")
            if _key(found) == _key(own):
                known = dict(zip([*self._keys, _key(None)], [*self.classes, None]))
                answers = {i: known[_key(label)] for i, label in answers.items()}
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(
                f"{self.path} holds no answers of an ActiveLoop ({error!r}): move it away."
            ) from error
        for key in own:
            if _key(found[key]) != _key(own[key]):
                raise ValueError(
                    f"{self.path} belongs to another pool: its {key} is {found[key]}, this loop's "
                    f"{own[key]}. Give "
                    "another path, or the pool that it was made for."
                )
        self.answers = answers
        self.pending = pending
        self.rounds = rounds


@contextmanager
def locked(path):
    """Context in which no other process is that asks for the same file; the lock goes with the
    process."""
    with open(path, "a+b") as file:
        if os.name == "nt":
            import msvcrt

            file.seek(0)
            while True:
                try:
                    # gives up after ten seconds
                    msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
                    break
                except OSError:
                    continue
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _checked_classes(classes):
    """The classes as a list of Python's own values; ValueError unless they are different labels."""
    listed = classes if np.iterable(classes) else [classes]
    listed = [c.item() if isinstance(c, np.generic) else c for c in listed]
    if any(c is None for c in listed):
        raise ValueError(
            f"classes must not hold None, which is the answer that skips a point, got {listed}: "
            "give it another name, such as 'none'."
        )
    mixed = len({isinstance(c, str) for c in listed}) > 1
    nested = any(map(np.ndim, listed))
    if mixed or nested or not 2 <= len(set(listed)) == len(listed):
        raise ValueError(
            f"classes must be at least 2 different labels, all words or none, got {listed}."
        )
    return listed


def _of_places(chosen, pool):
    # What to say of integers that may be places within the pool, where they are no points of it.
    of_pool = chosen.dtype.kind in "iu" and (chosen >= 0).all() and (chosen < len(pool)).all()
    return ": points are pool[chosen] where these are places within the pool" if of_pool else ""


def _key(value):
    # What the file holds of a value: two labels are the same if this is, NaN and days too.
    return json.dumps(value.item() if isinstance(value, np.generic) else value, default=str)
