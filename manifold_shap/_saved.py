"""Turns things into plain settings and tensors, and makes them again: what saving is made of."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from torch import Tensor

Settings = dict[str, Any]
Tensors = dict[str, Tensor]

# Numbers in one list from which they are kept as a tensor: JSON would take twice the room.
_MANY = 256
# What stands in settings for another thing, and for such a list.
_THING, _NUMBERS = "$thing", "$numbers"


class Passed(NamedTuple):
    """What no file holds: the model that is explained, and a network of the user's."""

    model: Any = None
    network: Any = None


@runtime_checkable
class Saved(Protocol):
    """What can be saved.

    Attributes:
        kind: the name under which `saved` has registered what restores it.
    """

    kind: str

    def state(self) -> tuple[Settings, Tensors]:
        """Plain settings, among which other saved things may stand, and tensors."""


KINDS: dict[str, Any] = {}
AnyClass = TypeVar("AnyClass", bound=type)


def saved(restores: AnyClass) -> AnyClass:
    """Register a class whose `restored(settings, tensors, passed)` makes things of its `kind`.

    It is the class of these things itself, or that of what they are trained by.
    """
    KINDS[restores.kind] = restores  # type: ignore[attr-defined]
    return restores


def pack(thing: Any) -> tuple[list[Settings], Tensors]:
    """All things of which one is made, itself last, and their tensors; each of these once.

    Raises:
        TypeError: something in it cannot be saved.
    """
    things, tensors = list[Settings](), Tensors()
    numbers, keys = dict[int, int](), dict[tuple[Any, ...], str]()
    alive = list[Any]()  # So that no other thing gets the number of one of these in memory.

    def key_of(tensor: Tensor) -> str:
        own = tensor.detach().cpu().contiguous()
        content = hashlib.sha256(own.flatten().view(torch.uint8).numpy().tobytes()).digest()
        key = keys.setdefault((own.dtype, own.shape, content), str(len(tensors)))
        tensors[key] = own
        return key

    def plain(entry: Any) -> Any:
        if isinstance(entry, Mapping):
            return {str(name): plain(own) for name, own in entry.items()}
        if isinstance(entry, list | tuple):
            if len(entry) >= _MANY and {*map(type, entry)} in ({float}, {int}):
                return {_NUMBERS: key_of(_compact(np.array(entry)))}
            return [plain(own) for own in entry]
        return {_THING: number(entry)} if isinstance(entry, Saved) else entry

    def number(one: Any) -> int:
        if id(one) not in numbers:
            alive.append(one)
            settings, own = one.state()
            entry = {"kind": one.kind, "settings": plain(settings)}
            things.append({**entry, "tensors": {name: key_of(each) for name, each in own.items()}})
            numbers[id(one)] = len(things) - 1
        return numbers[id(one)]

    if not isinstance(thing, Saved):
        fix = "; save its `value`, and make it of that again" if hasattr(thing, "value") else ""
        fix = " here; it has a `save(path)` of its own" if hasattr(thing, "save") else fix
        raise TypeError(
            "Expected a surrogate, an imputer, a value function of these, an amortised explainer "
            f"or an `Explainer` but got {type(thing).__name__}, which cannot be "
            f"saved{fix}."
        )
    number(thing)
    return things, tensors


def unpack(things: Sequence[Settings], tensors: Tensors, passed: Passed) -> Any:
    """The last of the things that `pack` has packed."""
    made = list[Any]()

    def whole(entry: Any) -> Any:
        if isinstance(entry, list):
            return [whole(own) for own in entry]
        if not isinstance(entry, dict):
            return entry
        if _THING in entry:
            return made[entry[_THING]]
        if _NUMBERS in entry:
            return tensors[entry[_NUMBERS]].tolist()
        return {name: whole(own) for name, own in entry.items()}

    for thing in things:
        own = {name: tensors[key] for name, key in thing["tensors"].items()}
        made.append(KINDS[thing["kind"]].restored(whole(thing["settings"]), own, passed))
    return made[-1]


def _compact(numbers: np.ndarray) -> Tensor:
    """Whole numbers in the shortest type that holds them; others as they are."""
    if numbers.dtype.kind in "iu":
        ends = (np.min_scalar_type(end) for end in (numbers.min(), numbers.max()))
        numbers = numbers.astype(np.result_type(*ends))
    return torch.from_numpy(numbers)


def codes(x: Tensor) -> Tensor:
    """Whole numbers in floats, such as the codes of a table, in a short type."""
    return x.to(torch.int16 if bool(x.amax() < 2**15) else torch.int32)
