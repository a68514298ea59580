"""States of samplers as dictionaries of plain tensors and numbers, which `torch.load` reads by
default."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np


class Stateful:
    """Base of what has a state: `state_dict` and `load_state_dict`, as torch and torchdata's
    loaders ask for them.

    A subclass names in `_state` the attributes that change while it works, and in `_same` those
    that the sampler which a state is loaded into must have in common with the one that it is from.
    """

    _state: ClassVar[tuple[str, ...]] = ()
    _same: ClassVar[tuple[str, ...]] = ()

    def state_dict(self) -> dict[str, Any]:
        """The state, as tensors, numbers, words, lists and dictionaries of these: all that
        ``torch.save`` needs.

        What the constructor was given is not in it.

        Raises
        ------
        ImportError
            without torch; ``pickle`` does without it
        """
        return {
            name.lstrip("_"): _plain(getattr(self, name)) for name in (*self._same, *self._state)
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on where another one was, which was made with the same arguments, when `state_dict`
        was taken.

        Raises
        ------
        ValueError
            for the state of another class, or of other sizes; nothing is changed then
        """
        self._check_state(state_dict)
        for name in self._state:
            self._restore(name, state_dict[name.lstrip("_")])

    def _check_state(self, state_dict, prefix=""):
        names = {name.lstrip("_"): name for name in (*self._same, *self._state)}
        if set(names) != set(state_dict):
            raise ValueError(
                f"the state of a {type(self).__name__} has the entries {sorted(names)}, got "
                f"{sorted(state_dict)}: "
                "load it into a sampler that is made like the one that it is from."
            )
        for name in self._same:
            mine = getattr(self, name)
            other = state_dict[name.lstrip("_")]
            if mine != other:
                raise ValueError(
                    f"the state is of a {type(self).__name__} with {name}={other}, this one has "
                    f"{mine}."
                )
        for name in self._state:
            key = name.lstrip("_")
            _check(f"{prefix}{key}", state_dict[key], getattr(self, name))

    def _restore(self, name, value):
        present = getattr(self, name)
        if isinstance(present, Stateful):
            present.load_state_dict(value)
        elif isinstance(present, np.random.Generator):
            kinds = {kind.__name__: kind for kind in np.random.BitGenerator.__subclasses__()}
            if type(present.bit_generator) is not kinds[value["bit_generator"]]:
                present = np.random.Generator(kinds[value["bit_generator"]]())
                setattr(self, name, present)
            present.bit_generator.state = _like(value, present.bit_generator.state)
        elif isinstance(present, np.ndarray) and value is not None:
            # in place, as others may look at it
            present[...] = _like(value, present)
        else:
            setattr(self, name, _like(value, present))


def _check(key, value, present):
    # ValueError unless an array, or a state within a state, may become the value.
    if (
        isinstance(present, np.ndarray)
        and value is not None
        and tuple(value.shape) != present.shape
    ):
        raise ValueError(
            f"{key} of the state has shape {tuple(value.shape)}, where {present.shape} is wanted."
        )
    if isinstance(present, Stateful):
        present._check_state(value, f"{key}.")


def _plain(value):
    if isinstance(value, Stateful):
        return value.state_dict()
    if isinstance(value, np.random.Generator):
        return _plain(value.bit_generator.state)
    if isinstance(value, np.ndarray):
        import torch

        # Torch lacks most of what there is for unsigned numbers; the bits stay as they are.
        signed = value.view(value.dtype.str.replace("u", "i")) if value.dtype.kind == "u" else value
        return torch.tensor(signed)
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(part) for part in value]
    return value.item() if isinstance(value, np.generic) else value


def _like(value, present):
    # The value as it was before `_plain`; what is there now says which numbers have no sign.
    if hasattr(value, "detach"):
        array = value.detach().cpu().numpy().copy()
        unsigned = isinstance(present, np.ndarray) and present.dtype.kind == "u"
        return array.view(present.dtype) if unsigned else array
    if isinstance(value, Mapping):
        return {key: _like(part, present[key]) for key, part in value.items()}
    if isinstance(value, list):
        return [_like(part, None) for part in value]
    return value
