"""Things whose contents a run could read, each with what it held before the run: what guards compare and effects come from."""

from __future__ import annotations

import functools
import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from operator import itemgetter
from types import MemberDescriptorType
from typing import Any, NamedTuple

import numpy as np

from .._core.devices import device
from .._core.dtypes import dtype
from .._core.sizes import Size
from .._tensor import Tensor
from .lookups import standing


class _Missing:
    """Stands for a value that is not there."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "missing"


MISSING = _Missing()


class Effect(NamedTuple):
    """A change that the run made to an object that was there before: `key` is a name, a key or a position.

    `kind` says how it is made again: "attribute" (setattr), "item" (holder[key] = new), "append", "cell", "grad".
    """

    holder: Any
    key: Any
    old: Any  # MISSING if there was none
    new: Any  # MISSING if it was deleted
    path: str
    kind: str


# Values that are compared as such; all others are told apart by who they are.
_ATOMS = frozenset((
    type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented), range, dtype, device, np.dtype,
))  # fmt: skip


def plain(value: Any) -> bool:
    """Whether a value never changes and may be compared with another."""
    kind = type(value)
    if kind in _ATOMS or isinstance(value, (np.generic, Enum)):
        return True
    if kind is tuple or kind is Size or kind is frozenset:
        return all(map(plain, value))
    return kind is slice and plain((value.start, value.stop, value.step))


def same(a: Any, b: Any) -> bool:
    """Whether two values are alike in every respect: True is not 1, 0.0 is not -0.0, a NaN is a NaN."""
    if a is b:
        return True
    kind = type(b)
    if type(a) is not kind:
        return False
    if kind is float:
        return (a == b and math.copysign(1.0, a) == math.copysign(1.0, b)) or (a != a and b != b)
    if kind is tuple or kind is Size:
        return len(a) == len(b) and all(map(same, a, b))
    if kind is complex:
        return same((a.real, a.imag), (b.real, b.imag))
    if kind is slice:
        return same((a.start, a.stop, a.step), (b.start, b.stop, b.step))
    if isinstance(b, np.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return plain(b) and bool(a == b)


class Holder:
    """What a guard looks at: `now()` are its values at the moment, `expected` those before the run, `labels()` their names."""

    __slots__ = ("expected", "ids", "path")

    def __init__(self, path: str):
        self.path = path
        self.expected: tuple[Any, ...] = ()
        self.ids: tuple[int, ...] = ()

    def close(self) -> None:
        """Told when no names are added any more: fills in `expected`."""

    def kept(self) -> Holder:
        """A holder that knows what this one knows now, whatever it will have to forget."""
        return self

    def labels(self) -> Iterable[str]:
        raise NotImplementedError

    def now(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def holds(self) -> bool:
        """Whether everything is as it was."""
        values = self.now()
        return tuple(map(id, values)) == self.ids or (
            len(values) == len(self.ids) and all(map(same, values, self.expected))
        )

    def looks_at(self) -> tuple[Any, ...]:
        """What `now()` are the values of, where the owner does not say it all."""
        return ()

    def like(self, other: Holder) -> bool:
        """Whether another holder asks for the same of the same owner."""
        return (
            type(self) is type(other)
            and getattr(self, "owner", None) is getattr(other, "owner", None)
            and self.looks_at() == other.looks_at()
            and (self.ids == other.ids or same(self.expected, other.expected))
        )

    def failing(self) -> str | None:
        """The first value that is not as it was, in words."""
        try:
            values = self.now()
        except (AttributeError, KeyError, IndexError, ReferenceError, ValueError) as error:
            return f"{self.path}: {error.args[0] if error.args else 'something'} is missing"
        if len(values) != len(self.expected):
            return f"len({self.path}) == {len(self.expected)}"
        for label, a, b in zip(self.labels(), values, self.expected):
            if not same(a, b):
                if label.startswith("attributes of "):
                    return (
                        f"{label}: {sorted({*a} ^ {*b})} came or went" if {*a} != {*b} else f"{label} in the same order"
                    )
                return f"{label} == {b!r}" if plain(b) else f"{label} is {shown(b)}"
        return None

    def changes(self) -> Iterator[Effect]:
        """What the run changed."""
        return iter(())

    def seal(self, expected: tuple[Any, ...]) -> None:
        self.expected, self.ids = expected, tuple(map(id, expected))


def shown(value: Any) -> str:
    """A short text for an object in a message."""
    name = getattr(value, "__qualname__", None)
    return name if isinstance(name, str) else f"the same {type(value).__name__}"


def differences(before: dict[Any, Any], after: Any) -> Iterator[tuple[Any, Any, Any]]:
    """(key, old, new) for all that differs between two states of a dictionary."""
    for key, old in before.items():
        new = after.get(key, MISSING)
        if not same(new, old):
            yield key, old, new
    for key in list(after):  # other threads may change it
        if key not in before:
            yield key, MISSING, after.get(key, MISSING)


def reordered(before: dict[Any, Any], after: dict[Any, Any]) -> bool:
    """Whether what was there before and still is comes in another order, or behind what is new."""
    stayed = [key for key in before if key in after]
    return list(after)[: len(stayed)] != stayed


def _getter(names: list[Any]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) == 1:
        name = names[0]
        return lambda own: (own[name],)
    return itemgetter(*names) if names else lambda own: ()


TABLES = ("_parameters", "_buffers", "_modules")  # of modules
# What the interpreter and its library note in classes for themselves.
_NOTES = frozenset(("__slotnames__", "__annotations_cache__", "__annotations__", "__abstractmethods__", "_abc_impl"))


class Fields(Holder):
    """Attributes of an instance or a class: those that code names; besides, which attributes there are."""

    __slots__ = ("bases", "before", "get", "keys", "kind", "names", "owner")

    def __init__(self, owner: Any, path: str):
        super().__init__(path)
        self.owner, self.kind = owner, owner.__class__
        self.bases = getattr(owner, "__mro__", None) if isinstance(owner, type) else None
        self.before = self._own()
        self.keys = tuple(self.before)
        self.names: dict[str, None] = {}

    def close(self) -> None:
        names = list(self.names)
        self.get = _getter(names)
        self.seal((self.kind, self.bases, self.keys, *(self.before[name] for name in names)))

    def looks_at(self) -> tuple[Any, ...]:
        return tuple(self.names)

    def found_by(self, name: str) -> list[tuple[Any, str]]:
        """What is to be guarded if code names an attribute."""
        return [] if name in TABLES else [(self.before[name], f"{self.path}.{name}")]

    def labels(self) -> Iterable[str]:
        about = (f"type({self.path})", f"bases of {self.path}", f"attributes of {self.path}")
        return (*about, *(f"{self.path}.{name}" for name in self.names))

    def now(self) -> tuple[Any, ...]:
        own = self._own()
        keys = tuple(own)
        bases = None if self.bases is None else self.owner.__mro__
        return (self.owner.__class__, bases, self.keys if keys == self.keys else keys, *self.get(own))

    def changes(self) -> Iterator[Effect]:
        for key, old, new in differences(self.before, self._own()):
            yield Effect(self.owner, key, old, new, f"{self.path}.{key}", "attribute")

    def _own(self) -> dict[str, Any]:
        own = self.owner.__dict__
        return {k: v for k, v in own.items() if k not in _NOTES} if self.bases is not None else dict(own)


def put_attribute(a: Any, name: str, value: Any) -> None:
    """Gives an object an attribute, whatever its class does about that."""
    kind: Any = type(a)
    slot = slots_of(kind).get(name)
    if slot is None:
        a.__dict__[name] = value
    else:
        slot.__set__(a, value)


class Attributes(Fields):
    """Attributes of an argument that is known by what it holds; `parts` has what is found by names of them and is known by who it is."""

    __slots__ = ("parts", "slots")

    def __init__(self, owner: Any, path: str):
        kind: Any = type(owner)
        self.slots = slots_of(kind)
        self.parts: dict[str, list[tuple[Any, str]]] = {}
        super().__init__(owner, path)

    def found_by(self, name: str) -> list[tuple[Any, str]]:
        return self.parts.get(name, [])

    def changes(self) -> Iterator[Effect]:
        if self.owner.__class__ is not self.kind or reordered(self.before, self._own()):
            yield Effect(self.owner, None, self.kind, self.owner, f"class or order of {self.path}", "contents")
        yield from super().changes()

    put = staticmethod(put_attribute)

    def held(self) -> dict[str, Any]:
        return attributes_of(self.owner)

    _own = held


def attributes_of(a: Any) -> dict[str, Any]:
    """What an object holds, in slots or not."""
    kind: Any = type(a)
    slots, own = slots_of(kind), getattr(a, "__dict__", {})
    if not slots:
        return dict(own)
    held = {name: slot_of(a, member) for name, member in slots.items()}
    return {**{name: value for name, value in held.items() if value is not MISSING}, **own}


@functools.lru_cache(256)
def slots_of(kind: Any) -> dict[str, Any]:
    """The descriptors of the slots that classes written in Python give to instances."""
    found: dict[str, Any] = {}
    for base in kind.__mro__:
        if "__slots__" in vars(base):
            members = [(n, m) for n, m in vars(base).items() if type(m) is MemberDescriptorType]
            found.update([(name, member) for name, member in members if name not in found])
    return found


class Slots(Holder):
    """Attributes of an instance that have slots of their own."""

    __slots__ = ("before", "kind", "owner", "slots")

    def __init__(self, owner: Any, slots: dict[str, Any], path: str):
        super().__init__(path)
        self.owner, self.kind, self.slots = owner, owner.__class__, slots
        self.before = dict(zip(slots, self.now()[1:]))

    def close(self) -> None:
        self.seal((self.kind, *self.before.values()))

    def labels(self) -> Iterable[str]:
        return (f"type({self.path})", *(f"{self.path}.{name}" for name in self.slots))

    def looks_at(self) -> tuple[Any, ...]:
        return tuple(self.slots)

    def now(self) -> tuple[Any, ...]:
        return (self.owner.__class__, *(slot_of(self.owner, member) for member in self.slots.values()))

    def changes(self) -> Iterator[Effect]:
        for key, old, new in differences(self.before, dict(zip(self.slots, self.now()[1:]))):
            yield Effect(self.owner, key, old, new, f"{self.path}.{key}", "attribute")


def slot_of(owner: Any, member: Any) -> Any:
    try:
        return member.__get__(owner)
    except (AttributeError, TypeError):  # empty, or of another class now
        return MISSING


class Namespace(Holder):
    """Globals of a module: those that code names, and those that it would find among the builtins if they are not there."""

    __slots__ = ("before", "owner")

    def __init__(self, owner: dict[str, Any], path: str):
        super().__init__(path)
        self.owner = owner
        self.before: dict[str, Any] = {}

    def kept(self) -> Namespace:
        made = Namespace(self.owner, self.path)
        made.before = dict(self.before)
        return made

    def add(self, name: str) -> Any:
        """Notes the value of a name, or that there is none."""
        if name not in self.before:
            self.before[name] = standing(self.owner.get(name, MISSING))
        return self.before[name]

    def close(self) -> None:
        self.seal(tuple(self.before.values()))

    def labels(self) -> Iterable[str]:
        prefix = f"{self.path}." if self.path else ""
        return [prefix + name for name in self.before]

    def looks_at(self) -> tuple[Any, ...]:
        return tuple(self.before)

    def now(self) -> tuple[Any, ...]:
        get = self.owner.get
        return tuple([standing(get(name, MISSING)) for name in self.before])

    def changes(self) -> Iterator[Effect]:
        for name, old, new in zip(self.before, self.before.values(), self.now()):
            if not same(new, old):
                yield Effect(self.owner, name, old, new, f"{self.path}.{name}" if self.path else name, "item")


def base_of(owner: Any) -> Any:
    """The class written in C that a container is of, whatever a class of the program does besides."""
    return next(base for base in (OrderedDict, dict, list, deque) if isinstance(owner, base))


def put_item(owner: Any, key: Any, value: Any) -> None:
    """Puts something into a container."""
    base_of(owner).__setitem__(owner, key, value)


def _contents(owner: Any) -> dict[Any, Any]:
    """What a dictionary holds, whatever a class of the program gives instead of it."""
    if not isinstance(owner, dict) or type(owner) in (dict, OrderedDict):
        return dict(owner)
    keys = OrderedDict.__iter__(owner) if isinstance(owner, OrderedDict) else dict.__iter__(owner)
    return {key: dict.__getitem__(owner, key) for key in keys}


def _elements(owner: Any) -> tuple[Any, ...]:
    """The same for lists, deques and sets."""
    kinds: tuple[Any, ...] = list, deque, set
    return tuple(next((kind.__iter__(owner) for kind in kinds if isinstance(owner, kind)), owner))


class Items(Holder):
    """The contents of a dictionary, in order; values whose keys are `free` may be others."""

    __slots__ = ("before", "free", "owner")

    def __init__(self, owner: Any, path: str):
        super().__init__(path)
        self.owner = owner
        self.before = _contents(owner)
        self.free: set[Any] = set()

    def close(self) -> None:
        before = {key: MISSING if key in self.free else value for key, value in self.before.items()}
        self.seal((*before, *before.values()))

    def labels(self) -> Iterable[str]:
        keys = list(map(_short, self.before))
        return [f"key {key!r} of {self.path}" for key in keys] + [f"{self.path}[{key!r}]" for key in keys]

    put = staticmethod(put_item)

    def held(self) -> dict[Any, Any]:
        return _contents(self.owner)

    def now(self) -> tuple[Any, ...]:
        owner = self.owner if type(self.owner) is dict else _contents(self.owner)
        if self.free:
            return (*owner, *[MISSING if key in self.free else value for key, value in owner.items()])
        return (*owner, *owner.values())

    def changes(self) -> Iterator[Effect]:
        if reordered(self.before, _contents(self.owner)):
            yield Effect(self.owner, None, self.before, self.owner, f"the order of {self.path}", "contents")
        for key, old, new in differences(self.before, _contents(self.owner)):
            yield Effect(self.owner, key, old, new, f"{self.path}[{_short(key)!r}]", "item")


def _short(key: Any) -> Any:
    return key if plain(key) else type(key)


class Sequence(Holder):
    """The elements of a list or a deque; those whose positions are `free` may be others."""

    __slots__ = ("before", "free", "owner")

    def __init__(self, owner: Any, path: str):
        super().__init__(path)
        self.owner, self.before = owner, _elements(owner)
        self.free: set[int] = set()

    def close(self) -> None:
        self.seal(self._fixed(self.before))

    def _fixed(self, held: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([MISSING if i in self.free else a for i, a in enumerate(held)]) if self.free else held

    def labels(self) -> Iterable[str]:
        return [f"{self.path}[{i}]" for i in range(len(self.before))]

    put = staticmethod(put_item)

    def held(self) -> dict[int, Any]:
        return dict(enumerate(_elements(self.owner)))

    def now(self) -> tuple[Any, ...]:
        return self._fixed(tuple(self.owner) if type(self.owner) is list else _elements(self.owner))

    def changes(self) -> Iterator[Effect]:
        after = _elements(self.owner)
        for i, old in enumerate(self.before):
            new = after[i] if i < len(after) else MISSING
            if not same(new, old):
                yield Effect(self.owner, i, old, new, f"{self.path}[{i}]", "item")
        for i in range(len(self.before), len(after)):
            yield Effect(self.owner, i, MISSING, after[i], f"{self.path}[{i}]", "append")


class Members(Sequence):
    """The elements of a set."""

    __slots__ = ()

    def labels(self) -> Iterable[str]:
        return [f"an element of {self.path}" for _ in self.before]

    def changes(self) -> Iterator[Effect]:
        if len(self.owner) != len(self.before) or any(element not in self.owner for element in self.before):
            yield Effect(self.owner, None, self.before, tuple(self.owner), self.path, "contents")


class Cell(Holder):
    """The value of a variable that a function shares with the one around it."""

    __slots__ = ("before", "owner")

    def __init__(self, owner: Any, path: str):
        super().__init__(path)
        self.owner = owner
        self.before = self.now()[0]

    def close(self) -> None:
        self.seal((self.before,))

    def labels(self) -> Iterable[str]:
        return (self.path,)

    def now(self) -> tuple[Any, ...]:
        try:
            return (self.owner.cell_contents,)
        except ValueError:
            return (MISSING,)

    def changes(self) -> Iterator[Effect]:
        (new,) = self.now()
        if not same(new, self.before):
            yield Effect(self.owner, None, self.before, new, self.path, "cell")


class Code(Holder):
    """What a function runs and its defaults; these may be changed without making another function."""

    __slots__ = ("before", "owner")

    def __init__(self, owner: Any, path: str):
        super().__init__(path)
        self.owner = owner
        self.before = self.now()

    def close(self) -> None:
        self.seal(self.before)

    def labels(self) -> Iterable[str]:
        names = ("__code__", "__defaults__", "__kwdefaults__", "keyword defaults", "__closure__")
        return [f"{self.path}.{name}" for name in names]

    def now(self) -> tuple[Any, ...]:
        function = self.owner
        named = function.__kwdefaults__
        pairs = None if named is None else tuple(named.items())
        return function.__code__, function.__defaults__, named, pairs, function.__closure__

    def changes(self) -> Iterator[Effect]:
        if not same(self.now(), self.before):
            yield Effect(self.owner, "__code__", self.before, self.now(), self.path, "contents")


class Answer(Holder):
    """The answer to a question that is asked again: what a weak reference leads to, how often a cache was asked."""

    __slots__ = ("ask",)

    def __init__(self, ask: Callable[[], Any], path: str):
        super().__init__(path)
        self.ask = ask
        self.seal((ask(),))

    def looks_at(self) -> tuple[Any, ...]:
        return (self.ask,)

    def labels(self) -> Iterable[str]:
        return (self.path,)

    def now(self) -> tuple[Any, ...]:
        return (self.ask(),)

    def changes(self) -> Iterator[Effect]:
        if not same(self.now(), self.expected):
            yield Effect(self.ask, None, self.expected, self.now(), self.path, "contents")


class External(Holder):
    """A tensor that the run found somewhere: parameters, buffers, constants."""

    __slots__ = ("before", "owner", "trains")

    def __init__(self, owner: Tensor, path: str, grad: Tensor | None):
        super().__init__(path)
        self.owner = owner
        self.before = (*self._self(), grad)
        self.trains = False  # whether code could look at gradients or hooks

    def _self(self) -> tuple[Any, ...]:
        t = self.owner
        return t.__class__, t._array, t.dtype, t._k, t._edge is None, not t.__dict__

    def close(self) -> None:
        expected = self.before[:6]
        self.seal((*expected, self.before[6] is None, _hooks(self.owner)) if self.trains else expected)

    def labels(self) -> Iterable[str]:
        names = (
            "type",
            "data",
            "dtype",
            "requires_grad and layout",
            "is_leaf",
            "__dict__ is empty",
            "grad is None",
            "hooks",
        )
        return [f"{self.path}.{name}" for name in names]

    def now(self) -> tuple[Any, ...]:
        return (*self._self(), grad_of(self.owner) is None, _hooks(self.owner)) if self.trains else self._self()

    def changes(self) -> Iterator[Effect]:
        for name, old, new in zip(
            ("__class__", "data", "dtype", "requires_grad", "is_leaf", "__dict__"), self.before, self._self()
        ):
            if not same(new, old):
                yield Effect(self.owner, name, old, new, f"{self.path}.{name}", "contents")
        old, new = self.before[6], grad_of(self.owner)
        if old is not new:
            yield Effect(self.owner, "grad", old, new, f"{self.path}.grad", "grad")


def grad_of(t: Tensor) -> Tensor | None:
    """The gradient as it lies there, without asking anybody."""
    meta = t._autograd_meta
    return None if meta is None else meta.grad


def _hooks(t: Tensor) -> tuple[Any, ...]:
    meta = t._autograd_meta
    if meta is None or not (meta.hooks or meta.post_hooks):
        return ()
    return (*_values(meta.hooks), None, *_values(meta.post_hooks))


def _values(hooks: dict[Any, Any] | None) -> tuple[Any, ...]:
    return () if not hooks else tuple(hooks.values())


def held_by(holder: Holder) -> Iterable[Any]:
    """All that a holder found."""
    if isinstance(holder, Code):
        return [
            value
            for part in holder.before[1:3]
            if part
            for value in (part.values() if isinstance(part, dict) else part)
        ]
    if isinstance(holder, Cell):
        return (holder.before,)
    if isinstance(holder, External):
        return holder.before[6:]
    before: Any = getattr(holder, "before", holder.expected)
    return (before.values() if isinstance(before, dict) else before) if isinstance(before, (dict, tuple)) else (before,)
