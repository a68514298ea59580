"""What a selection chose, round by round, kept in a file so that a killed run goes on where it was."""

import functools
import hashlib
import types
import zipfile
from pathlib import Path

import numpy as np
import torch

PLAIN = (type(None), bool, int, float, complex, str, bytes, np.generic, torch.dtype, torch.device)


class Checkpoint:
    """The rounds of a selection, in a file that is written anew after each.

    Parameters
    ----------
    path : of the file; folders on the way are made
    task : str, `digest` of everything that the rounds depend on

    Raises
    ------
    ValueError
        if the file belongs to another task, or is no checkpoint
    """

    def __init__(self, path, task):
        self.path, self.task, self._rounds = Path(path), task, []
        if not self.path.exists():
            return
        try:
            with np.load(self.path, allow_pickle=False) as kept:
                same = str(kept["task"]) == task
                self._rounds = np.split(kept["indices"], np.cumsum(kept["lengths"])[:-1])
        except (KeyError, ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{self.path} is no checkpoint of a selection: remove it or name another.") from error
        if not same:
            raise ValueError(
                f"the checkpoint {self.path} is of other data, another start or another problem: remove it or name "
                "another."
            )

    def recall(self, position, count):
        """Rows of the round at a position, shape (count,); None where the file has no round of that size there."""
        known = self._rounds[position] if position < len(self._rounds) else ()
        return known if len(known) == count else None

    def record(self, position, indices):
        """Keep the rows of a round. Where the file has other rows for it, they and all later rounds are dropped."""
        if position < len(self._rounds) and np.array_equal(self._rounds[position], indices):
            return
        self._rounds[position:] = [np.array(indices, dtype=np.int64)]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_name(self.path.name + ".new")
        lengths = [len(rows) for rows in self._rounds]
        with open(new, "wb") as file:
            np.savez(file, task=self.task, indices=np.concatenate(self._rounds), lengths=lengths)
        new.replace(self.path)


def digest(*things):
    """SHA-256 of what `describe` says of some things."""
    return hashlib.sha256(describe(things).encode()).hexdigest()


def describe(thing, within=()):
    """Text that identifies the content of a thing: the same for equal contents, also in another process.

    Arrays and tensors are described by their bytes, functions by their code and the values that they close over, other
    objects by their attributes. State that an object keeps elsewhere is not seen.
    """
    if isinstance(thing, PLAIN):
        return repr(thing)
    if id(thing) in within:
        return "itself"
    more = functools.partial(describe, within=(*within, id(thing)))
    if isinstance(thing, torch.Tensor):
        thing = thing.detach().cpu()
        thing = thing.float().numpy() if thing.dtype == torch.bfloat16 else thing.numpy()
    if isinstance(thing, np.ndarray):
        content = np.ascontiguousarray(thing)
        return f"{content.dtype}{content.shape}{hashlib.sha256(content).hexdigest()}"
    if isinstance(thing, (list, tuple)):
        return f"({', '.join(map(more, thing))})"
    if isinstance(thing, (set, frozenset)):
        return f"{{{', '.join(sorted(map(more, thing)))}}}"
    if isinstance(thing, dict):
        return f"{{{', '.join(f'{more(k)}: {more(v)}' for k, v in thing.items())}}}"
    if isinstance(thing, types.CodeType):
        return more((thing.co_code, thing.co_names, thing.co_consts))
    if isinstance(thing, types.FunctionType):
        cells = [cell.cell_contents for cell in thing.__closure__ or ()]
        return f"{_name(thing)} {more((thing.__code__, thing.__defaults__, thing.__kwdefaults__, cells))}"
    if isinstance(thing, types.MethodType):
        return more((thing.__func__, thing.__self__))
    if isinstance(thing, functools.partial):
        return f"partial {more((thing.func, thing.args, thing.keywords))}"
    if isinstance(thing, torch.nn.Module):
        return f"{_name(type(thing))} {thing!r} {more(dict(thing.state_dict()))}"
    if isinstance(thing, type) or not hasattr(thing, "__dict__"):
        return _name(thing if hasattr(thing, "__qualname__") else type(thing))
    return f"{_name(type(thing))} {more(vars(thing))}"


def _name(thing):
    return f"{thing.__module__}.{thing.__qualname__}"
