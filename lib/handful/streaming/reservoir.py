"""Reservoirs: samples of a stream, uniform over all rows or balanced over the classes."""

from dataclasses import KW_ONLY, replace
from typing import Any, ClassVar

import numpy as np
from numba import njit
from sklearn.utils.multiclass import type_of_target

from handful.checks import Accepts, accepts_of
from handful.options import Count
from handful.rows import joined
from handful.running import warn
from handful.streaming.stream_memory import StreamMemory
from handful.tables import as_array
from handful.types import Seed


class Reservoir(StreamMemory):
    """A uniform sample of a stream (Vitter 1985, Algorithm R); `rows` gives it with labels and
    weights.

    Every row seen so far is held with the same probability. Rows that count differently need a
    `sample_weight`, which ``MergeReduce(UniformCoreset(), size=...)`` takes.

    Parameters
    ----------
    size : int, default=100
        Rows of the memory.
    random_state : int, Generator, RandomState or None, default=None
        Seeds all that is drawn; None draws anew each time.

    Attributes
    ----------
    coreset_ : Coreset of everything seen so far; its indices are positions in the stream, its
        weights ``n / size``
    n_seen_ : int; rows seen
    n_rows_held_ : int; rows in memory

    Examples
    --------
    >>> import numpy as np
    >>> stream = Reservoir(20, random_state=0)
    >>> for start in range(0, 1000, 250):
    ...     stream = stream.partial_fit(np.arange(start, start + 250.0)[:, None])
    >>> len(stream.coreset_), float(stream.weights_.sum())
    (20, 1000.0)
    >>> X, y, weights = stream.rows()
    >>> X.shape, y is None, weights.shape
    ((20, 1), True, (20,))
    """

    size: Count = 100
    _: KW_ONLY
    random_state: Seed = None

    _undone_by = BaseException
    _accepts = Accepts("unread", sparse=True, values=False)

    def fit(self, X, y=None):
        """Begin a new stream with these rows, at least one: see `partial_fit`."""
        return super().fit(X, y)

    def partial_fit(self, X, y=None):
        """Take in the next rows of the stream, any number of them: see `MergeReduce.partial_fit`.

        An error, and Ctrl-C, leaves everything as it was before the call.

        Raises
        ------
        ValueError
            as there
        """
        return super().partial_fit(X, y)

    def _take_in(self, X, y, sample_weight):
        if sample_weight is not None and (as_array(sample_weight) != 1).any():
            raise ValueError(
                "a reservoir takes no sample_weight: MergeReduce(UniformCoreset(), size=...) does."
            )
        rows = self._chunk_rows(*self._open(X, y, None))
        if len(rows):
            # Each row takes a place; -1 stands for none.
            places = self._places(rows)
            self.n_seen_ += len(rows)
            self._store(rows, places)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required |= self._accepts.needs_y
        return tags

    def _start(self):
        super()._start()
        self._rng = np.random.default_rng(self.seed_)
        self._held = None
        self._n_places = self.size

    def _places(self, rows):
        seen = self.n_seen_ + np.arange(len(rows))
        places = self._rng.integers(0, np.maximum(seen, self._n_places - 1), endpoint=True)
        places = np.where(seen < self._n_places, seen, places)
        return np.where(places < self._n_places, places, -1)

    def _store(self, rows, places):
        # Where several rows take one place the last stays. `source`: an index into the held rows,
        # then the new ones.
        held = 0 if self._held is None else len(self._held)
        source = np.concatenate([np.arange(held), np.full(max(0, places.max() + 1 - held), -1)])
        taken = np.flatnonzero(places >= 0)
        source[places[taken]] = held + taken
        union = rows if self._held is None else joined([self._held, rows])
        self._held = union.take(source[source >= 0])

    def _weights(self):
        return np.full(len(self._held), self.n_seen_ / len(self._held))

    def _chosen(self):
        return None if self._held is None else replace(self._held, weight=self._weights())

    @property
    def n_rows_held_(self):
        return 0 if self._held is None else len(self._held)


class ClassBalancedReservoir(Reservoir):
    """A sample of a stream with classes as equal in number as the stream allows (CBRS, Chrysakis
    and Moens 2020).

    When the memory is full, a row of a class that has never been the largest in memory replaces a
    random row of the largest class. A row of a class that has been the largest replaces, as in
    `Reservoir`, a random row of its own class or is dropped. `rows` gives the sample with labels
    and weights. The targets of a regression are no classes: `Reservoir` takes them.

    Parameters
    ----------
    size : int, default=100
        Rows of the memory.
    random_state : int, Generator, RandomState or None, default=None
        Seeds all that is drawn; None draws anew each time.

    Attributes
    ----------
    coreset_ : Coreset of everything seen so far; its indices are positions in the stream, the
        weight of a row is the number of rows of its class that were seen over the number that are
        held
    n_seen_, n_rows_held_ : as in `Reservoir`
    classes_ : array; the classes seen, in the order of their first rows

    Examples
    --------
    >>> import numpy as np
    >>> y = np.repeat(["cat", "dog"], [990, 10])
    >>> stream = ClassBalancedReservoir(20, random_state=0).fit(np.zeros((1000, 1)), y)
    >>> np.unique(y[stream.indices_], return_counts=True)[1].tolist()
    [10, 10]
    >>> X, labels, weights = stream.rows()
    >>> X.shape, weights[labels == "cat"].tolist() == [99.0] * 10
    ((20, 1), True)
    """

    _accepts = Accepts("classes", sparse=True, values=False)
    # What takes rows whose y holds no classes, or more of them than there are places.
    _unbalanced: ClassVar[str] = "Reservoir"

    def _start(self):
        super()._start()
        self.classes_ = np.empty(0)
        # For each class the rows seen and whether it has been the largest; for each place its
        # class, -1 if free.
        self._seen = np.zeros(0, dtype=np.int64)
        self._full = np.zeros(0, dtype=bool)
        self._code = np.empty(0, dtype=np.int64)

    def _places(self, rows):
        n_before = len(self.classes_)
        labels, first = np.unique(rows.y, return_index=True)
        # Each class three times: where most labels come once, scikit-learn warns.
        if type_of_target(np.tile(labels, 3), input_name="y").startswith("continuous"):
            raise ValueError(
                "y holds continuous numbers, such as the targets of a regression, and no classes "
                f"over which a reservoir can be balanced: {self._unbalanced} takes them."
            )
        # Labels come in the order of arrival, which does not depend on how the stream is cut.
        labels = labels[np.argsort(first)]
        begun = n_before > 0
        new = labels[~np.isin(labels, self.classes_)] if begun else labels
        self.classes_ = np.concatenate([self.classes_, new]) if begun else new
        if n_before <= self._n_places < len(self.classes_):
            warn(
                f"y holds {len(self.classes_)} classes so far for {self._n_places} places: each "
                "new class drives out an older one, so that the newest rows are held. More places "
                f"hold a row of each class; {self._unbalanced} takes the targets of a regression."
            )
        self._seen = np.concatenate([self._seen, np.zeros(len(new), dtype=np.int64)])
        self._full = np.concatenate([self._full, np.zeros(len(new), dtype=bool)])
        more = min(self._n_places - len(self._code), len(rows))
        self._code = np.concatenate([self._code, np.full(more, -1)])
        order = np.argsort(self.classes_, kind="stable")
        codes = order[np.searchsorted(self.classes_, rows.y, sorter=order)]
        return _balanced_places(
            codes, self._code, self._seen, self._full, self._rng.random((len(codes), 3))
        )

    def _weights(self):
        held = np.bincount(self._code[: len(self._held)], minlength=len(self._seen))
        code = self._code[: len(self._held)]
        # Where no row of a class is held, the other rows share its weight.
        weights = self._seen[code] / held[code]
        return weights * (self.n_seen_ / weights.sum())


class ReservoirCoreset(ClassBalancedReservoir):
    """`size` rows that a selector chooses from a reservoir of `n_held` rows of a stream; `rows`
    gives them.

    With labels the reservoir is balanced over the classes, so that rare ones are there to be chosen
    from.

    Parameters
    ----------
    selector : Selector
        What chooses among the rows held, such as ``BilevelCoreset(Logistic())``. Its own `size`
        and `random_state` are not used.
    size : int, default=100
        Rows of the coreset.
    n_held : int or None, default=None
        Rows of the reservoir, at least `size`; None for ten times `size`.
    balanced : bool, default=True
        Whether the reservoir is balanced over the classes of y. False for the targets of a
        regression.
    random_state : int, Generator, RandomState or None, default=None
        Seeds all that is drawn; None draws anew each time.

    Attributes
    ----------
    coreset_ : Coreset of everything seen so far; its indices are positions in the stream
    n_seen_, n_rows_held_ : as in `Reservoir`

    Examples
    --------
    >>> import numpy as np
    >>> from handful import UniformCoreset
    >>> X = np.arange(2000.0)[:, None]
    >>> stream = ReservoirCoreset(UniformCoreset(), size=20, random_state=0).fit(X[:1500])
    >>> stream = stream.partial_fit(X[1500:])
    >>> len(stream.coreset_), stream.n_seen_, stream.n_rows_held_
    (20, 2000, 200)
    """

    selector: Any
    _: KW_ONLY
    size: Count = 100
    n_held: Count | None = None
    balanced: bool = True

    _unbalanced = "balanced=False"

    @property
    def _accepts(self):
        accepts = accepts_of(self.selector)
        return replace(accepts, y="optional") if self.balanced and not accepts.reads_y else accepts

    def _start(self):
        super()._start()
        if self.n_held is not None and self.n_held < self.size:
            raise ValueError(
                f"n_held must be at least size, got n_held={self.n_held} for size={self.size}: "
                "the rows of the coreset are chosen from those held."
            )
        self._n_places = 10 * self.size if self.n_held is None else self.n_held

    def _places(self, rows):
        return (
            super()._places(rows)
            if self.balanced and rows.y is not None
            else Reservoir._places(self, rows)
        )

    def _weights(self):
        return (
            super()._weights()
            if self.balanced and self._held.y is not None
            else Reservoir._weights(self)
        )

    def _chosen(self):
        held = super()._chosen()
        return held and self._reduce([held], 0, self.n_seen_)


@njit(cache=True)
def _balanced_places(codes, code_of_place, seen, full, uniforms):
    # Algorithm 1 of Chrysakis and Moens; `code_of_place`, `seen` and `full` are updated. Places
    # that are left out at the end of `code_of_place` are more than these rows could take.
    size = len(code_of_place)
    places = np.full(len(codes), -1, dtype=np.int64)
    held = np.zeros(len(seen), dtype=np.int64)
    n_held = 0
    for place in range(size):
        if code_of_place[place] >= 0:
            held[code_of_place[place]] += 1
            n_held += 1
    for i in range(len(codes)):
        code = codes[i]
        seen[code] += 1
        place = -1
        if n_held < size:
            place = n_held
            n_held += 1
        else:
            full |= held == held.max()
            if not full[code]:
                largest = np.flatnonzero(held == held.max())
                loser = largest[int(uniforms[i, 0] * len(largest))]
                place = _nth_of_class(code_of_place, loser, int(uniforms[i, 1] * held[loser]))
                held[loser] -= 1
            elif uniforms[i, 2] * seen[code] <= held[code] and held[code] > 0:
                place = _nth_of_class(code_of_place, code, int(uniforms[i, 1] * held[code]))
                held[code] -= 1
        if place >= 0:
            code_of_place[place] = code
            held[code] += 1
            places[i] = place
    return places


@njit(cache=True)
def _nth_of_class(code_of_place, code, n):
    for place in range(len(code_of_place)):
        if code_of_place[place] == code:
            if n == 0:
                return place
            n -= 1
    return -1
