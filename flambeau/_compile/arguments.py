"""The arguments of a call: tensors by what they look like, containers by their structure, numbers by value, all else by identity."""

from __future__ import annotations

import dataclasses
import inspect
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from .._kernel.native.direct import address_function
from .._tensor import Tensor
from .holders import grad_of, plain, same


class Arguments:
    """How the arguments of later calls have to look: conditions over `args` and `kwargs`, as text, each with words for it."""

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]):
        self.values: dict[str, Any] = {"same": same}  # what the conditions name
        self.conditions: list[tuple[str, str]] = []
        self.objects: list[tuple[Any, str]] = []  # arguments that are known by who they are
        self.tensors: list[tuple[Tensor, str, str]] = []  # with expression and path
        self._grads: dict[int, Tensor | None] = {}  # their gradients
        self._containers: list[tuple[Any, Any, str]] = []
        self.count, self.named = len(args), tuple(kwargs)
        names = _names(function, len(args))
        for i, value in enumerate(args):
            self._describe(value, f"args[{i}]", names[i])
        for name, value in kwargs.items():
            self._describe(value, f"kwargs[{name!r}]", name)

    def constant(self, value: Any) -> str:
        """The name under which conditions know a value."""
        name = f"c{len(self.values)}"
        self.values[name] = value
        return name

    def need(self, condition: str, words: str) -> None:
        self.conditions.append((condition, words))

    def _describe(self, value: Any, place: str, path: str) -> None:
        kind = type(value)
        if isinstance(value, Tensor):
            self._tensor(value, place, path)
        elif value is None or kind is bool:
            self.need(f"{place} is {value}", f"{path} is {value}")
        elif kind is int or kind is str:
            self.need(
                f"{place}.__class__ is {kind.__name__} and {place} == {self.constant(value)}", f"{path} == {value!r}"
            )
        elif plain(value):
            self.need(f"same({place}, {self.constant(value)})", f"{path} == {value!r}")
        elif kind is list or kind is tuple or (isinstance(value, tuple) and hasattr(value, "_fields")):
            self.need(f"{place}.__class__ is {self.constant(kind)}", f"type({path}) is {kind.__name__}")
            self.need(f"len({place}) == {len(value)}", f"len({path}) == {len(value)}")
            self._containers.append((value, tuple(value), path))
            for i, part in enumerate(value):
                self._describe(part, f"{place}[{i}]", f"{path}[{i}]")
        elif (kind is dict or kind is OrderedDict) and all(map(plain, value)):
            self.need(f"{place}.__class__ is {self.constant(kind)}", f"type({path}) is {kind.__name__}")
            self.need(f"same((*{place},), {self.constant(tuple(value))})", f"keys of {path}")
            self._containers.append((value, dict(value), path))
            for key, part in value.items():
                self._describe(part, f"{place}[{self.constant(key)}]", f"{path}[{key!r}]")
        elif is_record(value):
            self.need(f"{place}.__class__ is {self.constant(kind)}", f"type({path}) is {kind.__name__}")
            self._containers.append((value, dict(vars(value)), path))
            self.need(f"(*{place}.__dict__,) == {self.constant(tuple(vars(value)))}", f"attributes of {path}")
            self.objects.append((kind, kind.__qualname__))
            for name, part in vars(value).items():
                self._describe(part, f"{place}.{name}", f"{path}.{name}")
        else:
            self.need(f"{place} is {self.constant(value)}", f"{path} is the same {kind.__name__}")
            self.objects.append((value, path))

    def _tensor(self, t: Tensor, place: str, path: str) -> None:
        array = t._array
        self.tensors.append((t, place, path))
        self._grads[id(t)] = grad_of(t)
        for at, value, words in (
            (f"(t := {place}).__class__ is", type(t), f"type({path}) is {type(t).__name__}"),
            ("t._k ==", t._k, f"device, layout and requires_grad of {path}"),
            ("t.dtype is", t.dtype, f"{path}.dtype == {t.dtype}"),
            ("(a := t._array).shape ==", array.shape, f"{path}.shape == {tuple(array.shape)}"),
            ("a.strides ==", array.strides, f"{path}.stride() == {tuple(t.stride())}"),
        ):
            self.need(f"{at} {self.constant(value)}", words)
        if not t.__dict__:
            self.need("not t.__dict__", f"{path} has no attributes of its own")
        else:
            self.need(f"(*t.__dict__,) == {self.constant(tuple(t.__dict__))}", f"attributes of {path}")
            for name, value in t.__dict__.items():
                self._describe(value, f"{place}.__dict__[{name!r}]", f"{path}.{name}")

    def carried(self, t: Tensor, owner: Any, key: Any, attribute: bool, path: str) -> Callable[[], Tensor]:
        """Describes a tensor that each run finds in a place and replaces there; gives a function that gets it."""
        self._tensor(t, f"{self.constant(owner)}{'.__dict__' if attribute else ''}[{self.constant(key)}]", path)
        return lambda: (owner.__dict__ if attribute else owner)[key]

    def number(self, owner: Any, key: Any, kind: str, of: str, path: str) -> None:
        """Any number of a class may be in a place."""
        place = {"attribute": ".__dict__[{}]", "item": "[{}]", "cell": ".cell_contents"}[kind].format(
            self.constant(key)
        )
        self.need(f"{self.constant(owner)}{place}.__class__ is {of}", f"type({path}) is {of}")

    def guard_leaves(self) -> None:
        """Code asks which tensors are leaves."""
        for t, place, path in self.tensors:
            leaf = t._edge is None
            none = self._grads[id(t)] is None
            self.need(f"({self.constant(grad_of)}({place}) is None) is {none}", f"({path}.grad is None) is {none}")
            self.need(f"({place}._edge is None) is {leaf}", f"{path}.is_leaf == {leaf}")

    def guard_memory(self, externals: list[Tensor]) -> None:
        """Which tensors are one object, and which lie in the same memory, as each other or as tensors from elsewhere."""
        for i, (a, place, path) in enumerate(self.tensors):
            for b, other, name in self.tensors[:i]:
                if a is b:
                    self.need(f"{place} is {other}", f"{path} is {name}")
        first = {id(t): i for i, (t, _, _) in reversed(list(enumerate(self.tensors)))}
        several = [self.tensors[i] for i in sorted(first.values())]
        memory = Memory([t._array for t, _, _ in several], [t._array for t in externals])
        arrays = ", ".join(f"{place}._array" for _, place, _ in several)
        owners = [f"(a if (b := (a := {place}._array).base) is None else b)" for _, place, _ in several]
        text = f"{self.constant(memory.holds)}(({arrays},))"
        if not memory.shared and several:
            away = f"{self.constant(memory.owners)}.isdisjoint({{{', '.join(f'id({o})' for o in owners)}}})"
            apart = f"len({{{', '.join(f'id({o})' for o in owners)}}}) == {len(owners)}"
            if len(owners) == 1:
                text = f"id({owners[0]}) not in {self.constant(memory.owners)} or {text}"
            else:
                text = f"({apart} and {away}) or {text}"
        if several:
            self.need(text, "which arguments lie in the same memory")

    def changed(self) -> str | None:
        """A container among the arguments that does not hold what it held."""
        for value, before, path in self._containers:
            if isinstance(value, dict):
                now: Any = dict(value)
            else:
                now = tuple(value) if isinstance(value, (list, tuple)) else dict(vars(value))
            if isinstance(now, dict):
                now, before = (*now, *now.values()), (*before, *before.values())
            if not same(now, before):
                return path
        return None


class Memory:
    """Which arrays lie in the same memory: pairs among themselves, and with others that stay where they are."""

    def __init__(self, arrays: list[Any], others: list[Any]):
        self.others = others
        self.owners = frozenset(id(_owner(a)) for a in others)
        self._by_owner: dict[int, list[Any]] = {}
        for a in others:
            self._by_owner.setdefault(id(_owner(a)), []).append(a)
        self.shared = self._overlaps(arrays)

    def _overlaps(self, arrays: Any) -> list[tuple[Any, ...]]:
        """(which, which other, bytes between their first elements) of all pairs that overlap."""
        found: list[tuple[Any, ...]] = []
        for i, a in enumerate(arrays):
            for j in range(i):
                if overlap(a, arrays[j]):
                    found.append((i, j, _start(a) - _start(arrays[j])))
            for b in self._by_owner.get(id(_owner(a)), ()):
                if overlap(a, b):
                    found.append((i, id(b), _start(a) - _start(b)))
        return found

    def holds(self, arrays: Any) -> bool:
        return self._overlaps(arrays) == self.shared


def _owner(array: Any) -> Any:
    base = getattr(array, "base", None)
    return array if base is None else base


def overlap(a: Any, b: Any) -> bool:
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return _owner(a) is _owner(b)
    return _owner(a) is _owner(b) and bool(np.may_share_memory(a, b))


def _start(array: Any) -> int:
    return address_function()(array) if isinstance(array, np.ndarray) else 0


def is_record(value: Any) -> bool:
    """Whether a value is a dataclass with nothing but its fields."""
    if (
        not dataclasses.is_dataclass(value)
        or isinstance(value, (type, dict, list, tuple))
        or not hasattr(value, "__dict__")
    ):
        return False
    return vars(value).keys() <= {field.name for field in dataclasses.fields(value)}


def _names(function: Callable[..., Any], count: int) -> list[str]:
    """What the positional arguments are called."""
    try:
        names = [
            p.name
            for p in inspect.signature(getattr(function, "forward", function)).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        names = []
    return [names[i] if i < len(names) else f"args[{i}]" for i in range(count)]
