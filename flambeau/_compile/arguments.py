"""The arguments of a call: tensors by what they look like, containers by their structure, numbers by value, all else by identity.

An object of a class of which there is another in each call is known by what it holds, too. What the run changes of it, and results that it is in, are
then those of each call's object (`number_of`, `finder`).
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
from abc import ABCMeta
from collections import OrderedDict
from collections.abc import Callable, Container, Mapping, Sequence
from enum import Enum
from types import SimpleNamespace
from typing import Any

import numpy as np

from .._core.state import our_packages
from .._kernel.native.direct import address_function
from .._tensor import Tensor
from .fitting import fitting
from .holders import MISSING, Attributes, Items, base_of, grad_of, plain, same, slot_of
from .holders import Sequence as Elements
from .numbers import Place, held_at

# Attributes by which a part of an argument is found: whose they are, and their names.
_Chain = tuple[tuple[Attributes, str], ...]


def is_inference(t: Tensor) -> bool:
    """Whether a tensor was made in inference mode."""
    return t._autograd_meta is not None and bool(t._autograd_meta.inference)


class Arguments:
    """How the arguments of later calls have to look: conditions over `args` and `kwargs`, as text, each with words for it.

    Objects of the classes in `alike` are known by what they hold, as containers and dataclasses are: tensors, and what else code names.
    """

    def __init__(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], alike: Container[type] = frozenset()
    ):
        self.alike = alike
        self.values: dict[str, Any] = {"same": same}  # what the conditions name
        self.objects: list[tuple[Any, str]] = []  # arguments that are known by who they are
        self.tensors: list[tuple[Tensor, str, str]] = []  # with expression and path
        self.inputs: list[tuple[Tensor, str]] = []  # those of them that are arguments, or parts of arguments
        self.given: list[Any] = []  # containers and objects that are known by what they hold
        self.holders: list[Any] = []  # of what they held before the run
        self._grads: dict[int, Tensor | None] = {}  # gradients of tensors
        self._needs: list[tuple[str, str, _Chain]] = []
        self._looks: list[range] = []  # which of these say what each tensor looks like
        self._covered: set[int] = set()  # those of which one native call knows whether they hold
        self.covering: str | None = None  # that call
        self.others: set[int] = set()  # ids of what is known by who it is
        self._chain: _Chain = ()  # how what is described now is found
        self._found: list[tuple[str, _Chain]] = []  # expressions for all that is given, and how that is found
        self._kept: set[_Chain] = {()}  # how things are found that matter whether they are named or not
        self._number: dict[int, int] = {}  # of what is given, by ids
        self._dropped: set[int] = set()  # conditions that a program does without
        self._plain: list[tuple[int, Any, str]] = []  # conditions of values that never change, with value and path
        self._numbers: dict[tuple[int, Any], tuple[int, str]] = {}  # the conditions and expressions of numbers in there
        self.paths: list[str] = []
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
        self._needs.append((condition, words, self._chain))

    def _matters(self, chain: _Chain) -> bool:
        return chain in self._kept or all([name in fields.names for fields, name in chain])

    @property
    def conditions(self) -> list[tuple[str, str]]:
        """All that matter."""
        needs = [need for i, need in enumerate(self._needs) if i not in self._dropped]
        return [(condition, words) for condition, words, chain in needs if self._matters(chain)]

    @property
    def covered(self) -> list[tuple[str, str]]:
        """Those of them that need not be looked at if `covering` is true."""
        return [self._needs[i][:2] for i in sorted(self._covered)]

    def droppable(self) -> list[tuple[Any, str, Callable[[], None] | None]]:
        """Tensors and values that never change, with their paths; the latter with a function that drops their conditions."""
        found: list[Any] = [(t, path, None) for t, _, path in self.tensors]
        for i, value, path in self._plain:
            if self._matters(self._needs[i][2]):
                found.append((value, path, lambda i=i: self._dropped.add(i)))
        return found

    def _keep(self, chain: _Chain) -> None:
        self._kept.update([chain[:i] for i in range(len(chain) + 1)])

    def _describe(self, value: Any, place: str, path: str) -> None:
        kind = type(value)
        if plain(value):
            self._plain.append((len(self._needs), value, path))
        if isinstance(value, Tensor):
            self._keep(self._chain)
            self._tensor(value, place, path)
            self.inputs.append((value, place))
        elif value is None or kind is bool:
            self.need(f"{place} is {value}", f"{path} is {value}")
        elif kind is int or kind is str:
            self.need(
                f"{place}.__class__ is {kind.__name__} and {place} == {self.constant(value)}", f"{path} == {value!r}"
            )
        elif plain(value):
            self.need(f"same({place}, {self.constant(value)})", f"{path} == {value!r}")
        elif self.knows(value):
            first, chain = self._found[self._number[id(value)]]
            self._keep(chain)
            self.need(f"{place} is {first}", f"{path} is the same object")
        elif kind is list or kind is tuple or (isinstance(value, tuple) and hasattr(value, "_fields")):
            name = self._open(value, place, path, Elements if kind is list else None)
            self.need(f"len({name}) == {len(value)}", f"len({path}) == {len(value)}")
            for i, part in enumerate(value):
                self._part(value, i, part, f"{name}[{i}]", f"{path}[{i}]")
        elif (kind is dict or kind is OrderedDict) and all(map(plain, value)):
            name = self._open(value, place, path, Items)
            self.need(f"same((*{name},), {self.constant(tuple(value))})", f"keys of {path}")
            for key, part in value.items():
                self._part(value, key, part, f"{name}[{self.constant(key)}]", f"{path}[{key!r}]")
        elif (
            kind in self.alike and (not isinstance(value, dict) or all(map(plain, dict.__iter__(value))))
        ) or is_record(value):
            self._attributes(value, place, path)
        else:
            self.need(f"{place} is {self.constant(value)}", f"{path} is the same {kind.__name__}")
            self._by_identity(value, path)

    def _open(self, value: Any, place: str, path: str, holder: Any) -> str:
        """Begins to describe something by what it holds; gives the name that it has in conditions from there on."""
        name, kind = f"v{len(self.given)}", type(value)
        self._number[id(value)] = len(self.given)
        self.given.append(value)
        self._found.append((place, self._chain))
        self.paths.append(path)
        self.need(f"({name} := {place}).__class__ is {self.constant(kind)}", f"type({path}) is {kind.__name__}")
        if holder is not None:
            self.holders.append(holder(value, path))
        return name

    def _attributes(self, value: Any, place: str, path: str) -> None:
        name, chain = self._open(value, place, path, Attributes), self._chain
        fields = self.holders[-1]
        self._by_identity(type(value), type(value).__qualname__)
        if hasattr(value, "__dict__"):
            keys = self.constant(tuple(vars(value)))
            self.need(f"(*{name}.__dict__,) == {keys}", f"attributes of {path}")
        for key, slot in fields.slots.items():
            if key not in fields.before:
                self.need(
                    f"{self.constant(slot_of)}({name}, {self.constant(slot)}) is {self.constant(MISSING)}",
                    f"{path}.{key} is not set",
                )
        for key, part in fields.before.items():
            self._chain = (*chain, (fields, key))
            found = (
                f"{self.constant(fields.slots[key].__get__)}({name})"
                if key in fields.slots
                else f"{name}.__dict__[{key!r}]"
            )
            self._part(value, key, part, found, f"{path}.{key}")
        self._chain = chain
        if isinstance(value, dict):
            self.holders.append(Items(value, path))
            keys, part_of = self.constant(base_of(value).__iter__), self.constant(dict.__getitem__)
            held = self.holders[-1].before
            self.need(f"same((*{keys}({name}),), {self.constant(tuple(held))})", f"keys of {path}")
            for key, part in held.items():
                self._describe(part, f"{part_of}({name}, {self.constant(key)})", f"{path}[{key!r}]")

    def _part(self, owner: Any, key: Any, value: Any, place: str, path: str) -> None:
        if type(value) is int or type(value) is float:
            self._numbers[id(owner), key] = len(self._needs), place
        self._describe(value, place, path)

    def _by_identity(self, value: Any, path: str) -> None:
        self.others.add(id(value))
        if not self._chain:
            self.objects.append((value, path))
        else:
            fields, name = self._chain[-1]
            fields.parts.setdefault(name, []).append((value, path))

    def exchange(self, others: dict[int, Any]) -> set[int]:
        """Puts other tensors into the place of some, by their ids, where objects and what these hold have them; says which were found."""
        found: set[int] = set()
        for holder in self.holders:
            for key, value in holder.held().items():
                if id(value) in others:
                    found.add(id(value))
                    holder.put(holder.owner, key, others[id(value)])
        return found

    def knows(self, value: Any) -> bool:
        """Whether something is known by what it holds."""
        return id(value) in self._number

    def number_of(self, value: Any) -> int | None:
        """Which of the given things something is."""
        number = self._number.get(id(value))
        return number if number is not None and self._matters(self._found[number][1]) else None

    def name_of(self, place: Place) -> Place:
        """A place that is known in later calls, too: what is given has another object then."""
        owner, key, kind = place
        return (self.paths[self._number[id(owner)]] if self.knows(owner) else owner), key, kind

    def place_of(self, name: Place) -> Place | None:
        """The place in this call that has a name; None if there is none."""
        owner, key, kind = name
        if not isinstance(owner, str):
            return name
        return (self.given[self.paths.index(owner)], key, kind) if owner in self.paths else None

    def finding(self, place: Place) -> Callable[[Sequence[Any]], Any]:
        """A function that gets what is in a place from what a call is given."""
        owner, key, kind = place
        if not self.knows(owner):
            return lambda given: held_at(owner, key, kind)
        number = self._number[id(owner)]
        return lambda given: held_at(given[number], key, kind)

    def need_answer(self, answered: Any, answer: Any, words: str) -> None:
        """What a function says of what a call is given."""
        given = "".join([f"v{i}, " if self._matters(chain) else "None, " for i, (_, chain) in enumerate(self._found)])
        self.need(f"{self.constant(answered)}(({given})) == {answer}", words)

    def finder(self) -> Callable[[Any, Any], tuple[list[Tensor], list[Any]]]:
        """A function that finds tensors and what else is given in the arguments of a call for which conditions hold."""
        lines = ["def find(args, kwargs):"]
        for i, (place, chain) in enumerate(self._found):
            lines.append(f"    v{i} = {place if self._matters(chain) else None}")
        inputs, given = [place for _, place in self.inputs], [f"v{i}" for i in range(len(self._found))]
        lines.append(f"    return [{', '.join(inputs)}], [{', '.join(given)}]")
        values = dict(self.values)
        exec(compile("\n".join(lines), "<arguments>", "exec"), values)
        return values["find"]

    def forget(self) -> None:
        """Lets go of the arguments themselves, when all has been asked about them."""
        for held in (self.tensors, self.inputs, self.given, self.holders, self._needs, self._looks, self._found):
            held.clear()
        self._kept, self._grads = set(), {}

    def guard_identity(self, written: Container[type], others: Mapping[int, Any]) -> None:
        """Objects, and containers of classes that are written to, are each another, and none of some others; or the one of these that they are."""
        chosen = [
            i for i, value in enumerate(self.given)
            if (not isinstance(value, (list, tuple, dict)) or type(value) in written) and self._matters(self._found[i][1])
        ]  # fmt: skip
        for i in chosen:
            if id(self.given[i]) in others:
                self.need(f"v{i} is {self.constant(self.given[i])}", "an argument is an object from elsewhere")
        chosen = [i for i in chosen if id(self.given[i]) not in others]
        kinds = {type(self.given[i]) for i in chosen}
        known = {number: other for number, other in others.items() if type(other) in kinds}
        if chosen:
            ids = ", ".join([f"id(v{i})" for i in chosen])
            text = f"len(s := {{{ids}}}) == {len(chosen)} and {self.constant(known)}.keys().isdisjoint(s)"
            self.need(text, "objects among the arguments are not known from elsewhere")

    def _tensor(self, t: Tensor, place: str, path: str) -> None:
        array, first = t._array, len(self._needs)
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
            inputs = list(self.inputs)
            for name, value in t.__dict__.items():
                self._describe(value, f"{place}.__dict__[{name!r}]", f"{path}.{name}")
            self.inputs = inputs
        self._looks.append(range(first, len(self._needs)))

    def carried(self, owner: Any, key: Any, kind: str, value: Any, path: str) -> list[tuple[Any, Callable[[Any], Any]]]:
        """Describes what each run finds in a place and replaces there, a tensor or containers of tensors; gives all of these with functions
        that get them."""
        found: list[tuple[Any, Callable[[Any], Any]]] = []

        def describe(a: Any, place: str, path: str, get: Callable[[Any], Any]) -> None:
            if isinstance(a, Tensor):
                self._tensor(a, place, path)
            found.append((a, get))
            if isinstance(a, Tensor):
                return
            self.need(f"{place}.__class__ is {self.constant(type(a))}", f"type({path}) is {type(a).__name__}")
            self.need(f"len({place}) == {len(a)}", f"len({path}) == {len(a)}")
            if isinstance(a, dict):
                self.need(f"same((*{place},), {self.constant(tuple(a))})", f"keys of {path}")
            for k, part in a.items() if isinstance(a, dict) else enumerate(a):
                describe(part, f"{place}[{self.constant(k)}]", f"{path}[{k!r}]", lambda given, k=k: get(given)[k])  # type: ignore[misc]

        describe(value, self._place(owner, key, kind), path, lambda given: held_at(owner, key, kind))
        return found

    def _place(self, owner: Any, key: Any, kind: str) -> str:
        """A place, as text."""
        place = {"attribute": ".__dict__[{}]", "item": "[{}]", "cell": ".cell_contents"}[kind]
        return f"{self.constant(owner)}{place.format(self.constant(key))}"

    def number(self, owner: Any, key: Any, kind: str, of: str, path: str) -> None:
        """Any number of a class may be in a place."""
        if self.knows(owner):
            at, found = self._numbers[id(owner), key]
            self._plain = [known for known in self._plain if known[0] != at]
            self._needs[at] = f"{found}.__class__ is {of}", f"type({path}) is {of}", self._needs[at][2]
            return
        self.need(f"{self._place(owner, key, kind)}.__class__ is {of}", f"type({path}) is {of}")

    def guard_leaves(self) -> None:
        """Code asks which tensors are leaves."""
        for t, place, path in self.tensors:
            leaf = t._edge is None
            none = self._grads[id(t)] is None
            self.need(f"({self.constant(grad_of)}({place}) is None) is {none}", f"({path}.grad is None) is {none}")
            self.need(f"({place}._edge is None) is {leaf}", f"{path}.is_leaf == {leaf}")

    def guard_inference(self) -> None:
        """Code asks which tensors were made in inference mode."""
        for t, place, path in self.tensors:
            known = is_inference(t)
            self.need(f"{self.constant(is_inference)}({place}) is {known}", f"{path}.is_inference() == {known}")

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
            apart = f"len(s := {{{', '.join(f'id({o})' for o in owners)}}}) == {len(owners)}"
            away = f"{self.constant(memory.owners)}.isdisjoint(s)"
            if len(owners) == 1:
                text = f"id({owners[0]}) not in {self.constant(memory.owners)} or {text}"
            else:
                text = f"({apart} and {away}) or {text}"
        if several:
            self.need(text, "which arguments lie in the same memory")
        found = None if memory.shared else fitting([t for t, _, _ in several], memory.owners)
        if found is not None:
            places = "".join([f"{place}, " for _, place, _ in several])
            self.covering = f"{self.constant(found[0])}(({places}))"
            self.constant(found[1])
            self._covered = {i for look in self._looks for i in look} | {len(self._needs) - 1}


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


@functools.lru_cache(256)
def is_ordinary(kind: Any) -> bool:
    """Whether objects of a class are what they hold: attributes, and contents of a dictionary."""
    homes = {(getattr(base, "__module__", None) or "").partition(".")[0] for base in kind.__mro__}
    return kind is SimpleNamespace or (
        (type(kind) is type or isinstance(kind, ABCMeta))
        and all([base.__flags__ & _HEAP or base in (object, dict, OrderedDict) for base in kind.__mro__])
        and kind not in (dict, OrderedDict)
        and not any(["__getattribute__" in vars(base) for base in kind.__mro__ if base.__flags__ & _HEAP])
        and not hasattr(kind, "__del__")
        and not hasattr(kind, "__get__")
        and not issubclass(kind, Enum)
        and not homes & _KEEPERS
        and not homes & our_packages
    )


_HEAP = 1 << 9  # flag of classes that are made while the program runs
# Modules whose objects are more than what they hold: our own and the library's.
_KEEPERS = sys.stdlib_module_names - {"__main__", "abc", "argparse", "builtins", "collections", "typing"}


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
