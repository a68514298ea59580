"""What a selection chose, round by round, kept in a file so that a killed run goes on where it was."""

import zipfile
from pathlib import Path

import numpy as np


class Checkpoint:
    """The rounds of a selection, in a file that is written anew after each.

    Parameters
    ----------
    path : of the file; folders on the way are made
    task : str, a hash of what the rounds depend on
    losses : array, what depends on functions, which have no hash that holds in another process; equal to a thousandth

    Raises
    ------
    ValueError
        if the file belongs to another task, or is no checkpoint
    """

    def __init__(self, path, task, losses):
        self.path, self.task, self.losses = Path(path), task, losses
        self._rounds, self._position = [], 0
        if not self.path.exists():
            return
        try:
            with np.load(self.path, allow_pickle=False) as kept:
                same = str(kept["task"]) == task and np.allclose(kept["losses"], losses, rtol=1e-3, equal_nan=True)
                self._rounds = np.split(kept["indices"], np.cumsum(kept["lengths"])[:-1])
        except (KeyError, ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{self.path} is no checkpoint of a selection: remove it or name another.") from error
        if not same:
            raise ValueError(
                f"the checkpoint {self.path} is of other data, another start or another problem: remove it or name "
                "another."
            )

    def load_round(self, count):
        """Rows of the next round, shape (count,); None where the file has no round of that size there."""
        known = self._rounds[self._position] if self._position < len(self._rounds) else ()
        return known if len(known) == count else None

    def record(self, indices):
        """Keep the rows of the next round. Other rows that the file has for it are dropped, and all later ones."""
        at, self._position = self._position, self._position + 1
        if at < len(self._rounds) and np.array_equal(self._rounds[at], indices):
            return
        self._rounds[at:] = [np.array(indices, dtype=np.int64)]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new, lengths = self.path.with_name(self.path.name + ".new"), [len(rows) for rows in self._rounds]
        with open(new, "wb") as file:
            np.savez(file, task=self.task, losses=self.losses, indices=np.concatenate(self._rounds), lengths=lengths)
        new.replace(self.path)
