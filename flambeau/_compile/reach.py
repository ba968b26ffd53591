"""From the roots of a run to everything that its code could have read: an over-approximation by names.

An attribute counts as read if any code that ran names it, on whatever object; a container, with all it holds. Objects are
copied (shallowly) when they are reached, which is before the code that could change them runs.
"""

from __future__ import annotations

import builtins
import contextvars
import functools
import gc
import io
import logging
import operator
import os
import random
import re
import sys
import sysconfig
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Container, Iterable
from typing import Any, Generic

import numpy as np

from .._core.state import GRAD
from .._kernel.native.site import Site
from .._tensor import Tensor
from .arrays import DISPATCHER, Elements
from .arrays import MOST as MOST_BYTES
from .holders import (
    MISSING,
    TABLES,
    Answer,
    Attributes,
    Cell,
    Code,
    Effect,
    External,
    Fields,
    Holder,
    Items,
    Members,
    Namespace,
    Sequence,
    Slots,
    grad_of,
    held_by,
    slots_of,
)
from .holders import plain as plain
from .lookups import BY_NAME, OF_ALL
from .names import Names, names_of, only_counts
from .numbers import is_live

MOST = 10_000  # entries of one container
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_PACKAGE = __name__.partition(".")[0]
# Parts of the package that read attributes of users' objects, as users' code does; the others are trusted.
_READERS = tuple(
    _ROOT + part.replace("/", os.sep)
    for part in ("amp/", "ao/", "backends/", "distributed/", "distributions/", "export/", "fx/", "jit/", "masked/", "metrics/", "nested/",
                 "nn/attention/", "nn/modules/", "nn/parallel/", "nn/utils/", "optim/", "quantization/", "utils/", "vision/", "_demo/")
)  # fmt: skip
_CALLS = _ROOT + os.path.join("nn", "modules", "module.py"), _ROOT + os.path.join("nn", "modules", "_hooks.py")
# What a call of a module reads of it, besides what its layers name.
CALL_NAMES = frozenset((
    "training", "forward", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_compiled_call_impl",
))  # fmt: skip
_HEAP = 1 << 9  # flag of classes that are made while the program runs
_NATIVE = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
)

IMPORT, CALLS, TRUSTED, OURS, USERS, LIBRARY = range(-2, 4)
_PACKAGES = re.compile(r"[\\/](site|dist)-packages[\\/]")
_LIBRARIES = "numpy", "llvmlite", "ml_dtypes", "cupy", "scipy"  # each may be installed in another place
_STANDARD = (sysconfig.get_paths()["stdlib"] + os.sep, "<frozen ", "<__array_function__")


@functools.cache
def trust(file: str) -> int:
    """Whose code a file is: trusted parts of this package, its parts that read users' objects, Python's library and NumPy, which
    are trusted by those whom they work for, or anybody else's."""
    if not file.startswith(_ROOT):
        if file.startswith("<frozen importlib"):
            return IMPORT
        standard = file.startswith(_STANDARD) and not _PACKAGES.search(file)
        homes = [getattr(sys.modules.get(name), "__file__", None) for name in _LIBRARIES]
        known = file.startswith(tuple([os.path.dirname(home) + os.sep for home in homes if home]))
        return LIBRARY if standard or known else USERS
    if file.startswith(_CALLS):
        return CALLS
    return OURS if file.startswith(_READERS) else TRUSTED


def _ours(module: types.ModuleType) -> bool:
    """Whether a module is a part of this package, under whatever name it goes."""
    return (module.__dict__.get("__package__") or "").partition(".")[0] == _PACKAGE


def is_ours(kind: type) -> bool:
    """Whether a class is one of this package."""
    file = getattr(sys.modules.get(home_of(kind)), "__file__", None)
    return isinstance(file, str) and file.startswith(_ROOT)


def is_users(module: types.ModuleType | None) -> bool:
    """Whether a module is neither a part of this package nor of a library that it trusts; None if nobody knows which one it is."""
    if module is None or module.__name__ == "__main__":
        return True
    file = getattr(module, "__file__", None)
    return trust(file) == USERS if isinstance(file, str) else module.__name__ not in sys.stdlib_module_names


def class_is_trusted(kind: type) -> bool:
    """Whether instances of a class hold nothing that a program could read or change."""
    return is_ours(kind) and trust(str(sys.modules[home_of(kind)].__file__)) == TRUSTED


def home_of(kind: type) -> str:
    """The name of the module of a class; not all have one."""
    return getattr(kind, "__module__", None) or ""


class Unguarded(Exception):
    """Something was reached that cannot be guarded."""


class Reach:
    """All that was reached, by the holders of its values."""

    def __init__(self) -> None:
        self.holders: list[Holder] = []
        self.names: set[str] = set(CALL_NAMES)
        self.everything = False  # whether attributes are asked for by names that nobody knows
        self.ran: dict[int, Names] = {}  # code that ran
        self.codes: list[tuple[Any, Names, dict[str, Any]]] = []  # the same with its globals
        self._asked: set[str] = set()  # names of attributes that were asked for, and objects of which all were
        self._wholly: set[int] = set()
        self.seen: dict[int, Any] = {}  # by id; the objects are kept, so that ids stay theirs
        self._fields: dict[int, list[Fields]] = {}  # by their objects
        self._tables: list[Any] = []  # modules: (holder, attributes, holders of their tables, path)
        self._functions: dict[int, list[tuple[Any, str]]] = {}  # by their code
        self._spaces: dict[int, Namespace] = {}
        self._known: set[type] = set()
        for name in (*BY_NAME, *OF_ALL):  # which are others while a trail watches
            self.space(builtins.__dict__, "builtins").add(name)
        self._kinds: dict[type, bool] = {}
        self._loose: list[types.ModuleType] = []
        self._bytes = 0  # of arrays
        self.others: Container[int] = ()  # ids of arguments that are known by who they are
        self.given: Container[int] = ()  # ids of arguments that are known by what they hold
        self.met: dict[int, Any] = {}  # those of them that were found elsewhere, too
        self._waiting: list[tuple[Any, str]] = []
        self.tensors: dict[int, tuple[Tensor, str]] = {}
        self.gradients: dict[int, tuple[Tensor, Tensor | None]] = {}  # that the run has changed: what they were before
        self.caches: list[
            tuple[Any, Any, str, str]
        ] = []  # (cache, what it said about itself, path, why it must not be asked)

    # -- code --------------------------------------------------------------------------------------------------------

    def enter(self, code: Any, spaces: dict[str, Any], whose: int) -> None:
        """Code with these globals is about to run."""
        found = names_of(code)
        self.ran[id(code)] = found
        self.codes.append((code, found, spaces))
        for name, chains in found.globals.items():
            self._global(spaces, name, chains, whose)
        for name in found.imports:
            module = sys.modules.get(name)
            if module is not None:
                self._module(module, f"import {name}")
        self.learn(found.attributes)
        for function, path in self._functions.get(id(code), ()):
            self._running(function, path)
        self._work()

    def call(self, code: Any, spaces: dict[str, Any]) -> None:
        """A module is called: hooks of all modules are asked."""
        for name in names_of(code).globals:
            if isinstance(spaces.get(name), dict):
                self.root(self.space(spaces, "").add(name), name)

    def give(self, holders: Iterable[Holder], ids: Container[int]) -> None:
        """Arguments are known by what they hold: names that code uses are those of their attributes, too."""
        self.given = ids
        for holder in holders:
            if isinstance(holder, Attributes):
                self._fields[id(holder.owner)] = [holder]
                self._take(holder, self.names & holder.before.keys())
        self._work()

    def knows(self, code: Any) -> bool:
        """Whether a function with this code was reached."""
        return id(code) in self._functions

    def knows_object(self, value: Any) -> bool:
        """Whether an object was reached before code could change it."""
        return self.seen.get(id(value)) is value

    def learn(self, names: Iterable[str]) -> None:
        """Code names these attributes: objects that were reached before are looked at again."""
        new = set(names) - self.names
        if not new:
            return
        self.names |= new
        for fields in [fields for own in self._fields.values() for fields in own]:
            self._take(fields, new & fields.before.keys())
        for table in self._tables:
            self._look(table, new)
        for module in self._loose:
            self._loosely(module, new)
        self._work()

    def learn_one(self, name: str) -> None:
        self._asked.add(name)
        if name not in self.names:
            self.learn((name,))

    def learn_everything(self) -> None:
        """Attributes are asked for by names that are computed."""
        if not self.everything:
            self.everything = True
            for fields in [fields for own in self._fields.values() for fields in own]:
                self._take(fields, fields.before.keys())
            for table in self._tables:
                self._look(table, set(TABLES))
            self._work()

    def all_of(self, owner: Any) -> None:
        """All attributes of an object are asked for."""
        self._wholly.add(id(owner))
        for fields in self._fields.get(id(owner), ()):
            self._take(fields, fields.before.keys())
            for table in self._tables:
                if table[0] is fields:
                    self._look(table, self.names, whole=True)
            self._work()

    def _global(self, spaces: dict[str, Any], name: str, chains: Iterable[tuple[str, ...]], whose: int) -> None:
        space = self.space(spaces, "")
        value = space.add(name)
        if value is MISSING:
            home = spaces.get("__builtins__", {})
            home = home if isinstance(home, dict) else home.__dict__
            value = self.space(home, "builtins").add(name)
            if value is MISSING:
                return
        if isinstance(value, types.ModuleType) and not isinstance(value, Site):
            for chain in chains:
                self._chain(value, name, chain, whose)
        elif whose == USERS or isinstance(value, (dict, list, set)):
            self.reach(value, name)

    def _chain(self, module: types.ModuleType, path: str, chain: tuple[str, ...], whose: int = USERS) -> None:
        """`module.a.b.c`, as far as it leads from module to module."""
        if not chain:
            if whose == USERS:
                self._module(module, path)
            return
        name, path = chain[0], f"{path}.{chain[0]}"
        if name not in module.__dict__:
            value = getattr(
                module, name, MISSING
            )  # parts of packages are loaded when they are named, and there from then on
        if name in module.__dict__:
            value = self.space(module.__dict__, path.rpartition(".")[0]).add(name)
        elif value is not MISSING and not isinstance(value, types.ModuleType):
            if plain(value) or (whose == USERS and not _ours(module)):
                self.add(Answer(lambda: getattr(module, name, MISSING), path))
                self.reach(value, path)
            return
        if isinstance(value, types.ModuleType) and not isinstance(value, Site):
            self._chain(value, path, chain[1:], whose)
        elif value is not MISSING and whose == USERS and not _ours(module):
            self.reach(value, path)

    def space(self, spaces: dict[str, Any], path: str) -> Namespace:
        """The holder of a module's globals."""
        space = self._spaces.get(id(spaces))
        if space is None:
            space = self._spaces[id(spaces)] = self.add(Namespace(spaces, path))
        return space

    def _module(self, module: types.ModuleType, path: str) -> None:
        """A module that code holds in a variable: whatever it names may be asked of it."""
        if id(module) not in self.seen and not _ours(module):
            self.seen[id(module)] = module
            self._loose.append(module)
            self._loosely(module, self.names)

    def _loosely(self, module: types.ModuleType, names: set[str]) -> None:
        space = self.space(module.__dict__, module.__name__)
        for name in names & module.__dict__.keys():
            value = space.add(name)
            if not isinstance(value, types.ModuleType):
                self.reach(value, f"{module.__name__}.{name}")

    # -- values ------------------------------------------------------------------------------------------------------

    def _written_in_python(self, kind: type) -> bool:
        """Whether a class comes from a class statement: others define descriptors of their own."""
        known = self._kinds.get(kind)
        if known is None:
            known = self._kinds[kind] = bool(kind.__flags__ & _HEAP) and not any(
                type(value) in _NATIVE and value.__objclass__ is kind and name not in ("__dict__", "__weakref__")
                for name, value in vars(kind).items()
            )
        return known

    def add(self, holder: Any) -> Any:
        self.holders.append(holder)
        return holder

    def reach(self, value: Any, path: str) -> None:
        """Notes that a value may have been read."""
        if plain(value) or id(value) in self.seen or is_live(value):
            return
        self.seen[id(value)] = value
        if id(value) in self.given:
            self.met[id(value)] = value
        self._waiting.append((value, path))

    def _work(self) -> None:
        while self._waiting:
            self._open(*self._waiting.pop())

    def root(self, value: Any, path: str) -> None:
        self.reach(value, path)
        self._work()

    def _open(self, value: Any, path: str) -> None:
        kind = type(value)
        if isinstance(value, Tensor):
            self._tensor(value, path)
        elif kind in _OPENED:
            _OPENED[kind](self, value, path)
        elif isinstance(value, type):
            self._class(value)
            if value in (operator.attrgetter, operator.methodcaller):
                self.learn_everything()
        elif isinstance(value, types.ModuleType):
            if not isinstance(value, Site):
                self._module(value, path)
        elif isinstance(
            value, (random.Random, logging.Handler)
        ):  # whoever draws from it ends the region; what is told is told anew
            return
        elif self._written_in_python(kind):
            self._instance(value, path)
        elif isinstance(value, tuple):  # `sys.version_info` and its kind
            self._fixed(value, path)
        elif isinstance(value, io.TextIOBase):  # whoever reads it ends the region
            return
        elif kind not in _CONSTANTS and home_of(kind) not in ("datetime", "decimal"):
            raise Unguarded(f"{path} is a {kind.__name__}, whose state cannot be guarded")
        elif kind in (operator.attrgetter, operator.methodcaller):
            self.learn_everything()

    def _tensor(self, value: Tensor, path: str) -> None:
        _, grad = self.gradients.get(id(value)) or (None, grad_of(value))
        self.add(External(value, path, grad))
        if id(value._array) not in self.tensors or value._k & GRAD:  # detached forms lie in the same memory
            self.tensors[id(value._array)] = value, path
        if value.__dict__:
            self._have(Fields(value, path))
        if type(value) is not Tensor:
            self._class(type(value))

    def _instance(self, value: Any, path: str) -> None:
        kind: Any = type(value)
        if class_is_trusted(kind) or home_of(kind) in ("typing", "types", "re", "inspect"):
            return
        contents = None
        for base in kind.__mro__:
            if base not in _BASES and not self._written_in_python(base):
                raise Unguarded(f"{path} is a {kind.__name__}, whose state cannot be guarded")
            contents = contents or _CONTENTS.get(base)
        self._class(kind)
        if contents is not None:
            contents(self, value, path)
        slots = slots_of(kind)
        if slots:
            holder = self.add(Slots(value, slots, path))
            for name, held in holder.before.items():
                self.reach(held, f"{path}.{name}")
        if hasattr(value, "__dict__"):
            self._have(Fields(value, path))

    def _have(self, fields: Fields) -> None:
        self._fields.setdefault(id(fields.owner), []).append(self.add(fields))
        own = fields.before
        self._take(fields, own.keys() if self.everything else self.names & own.keys())
        if "_parameters" in own and "_modules" in own:
            table: Any = (fields, own, {}, fields.path)
            self._tables.append(table)
            interpreted = getattr(
                type(fields.owner), "_interpreted_state", None
            )  # code that names nothing in Python runs it
            self._look(table, self.names, whole=interpreted is not None)
            if interpreted is not None:
                names, held = interpreted(fields.owner)
                self._take(fields, names)
                self.reach(held, f"constants of {fields.path}")

    def _take(self, fields: Fields, names: Iterable[str]) -> None:
        for name in names:
            if name not in fields.names:
                fields.names[name] = None
                for value, path in fields.found_by(name):
                    self.reach(value, path)

    def _look(self, table: Any, names: set[str], whole: bool = False) -> None:
        """Parameters, buffers and submodules of a module that are named, or all of them if tables themselves are."""
        fields, own, holders, path = table
        for name in TABLES:
            held = own.get(name)
            if not isinstance(held, dict):
                continue
            if name not in holders:
                fields.names[name] = None
                holders[name] = self.add(Items(held, path))
                self.seen[id(held)] = held
            every = whole or self.everything or name in self.names
            for key in holders[name].before if every else names & holders[name].before.keys():
                self.reach(holders[name].before[key], f"{path}.{key}" if not key.isdigit() else f"{path}[{key}]")

    # -- what the run replaced ---------------------------------------------------------------------------------------

    def only_counts(self, effect: Effect) -> bool:
        """Whether code that ran does nothing with an integer in a place but add to it."""
        kind, key = effect.kind, effect.path if effect.kind == "cell" else effect.key
        if not (kind in ("attribute", "cell") or id(effect.holder) in self._spaces) or key in self._asked:
            return False
        return all([only_counts(code, key) for code, _, _ in self.codes]) and self.loosen(effect.holder, effect.key)

    def loosen(self, owner: Any, key: Any) -> bool:
        """No longer guards the number in a place; False if all that is there may be read by names that nobody knows."""
        if self.everything or id(owner) in self._wholly:
            return False
        for holder in list(self.holders):
            if getattr(holder, "owner", None) is not owner:
                continue
            if isinstance(holder, Items):
                holder.free.add(key)
            elif isinstance(holder, Cell):
                self.holders.remove(holder)
            elif isinstance(holder, (Fields, Namespace)):
                (holder.names if isinstance(holder, Fields) else holder.before).pop(key, None)
        return True

    def places(self, value: Any) -> list[Any]:
        """What holds a value, as often as it does."""
        return [place for held, place in self._met() if held is value]

    def tensors_met(self) -> list[tuple[Tensor, Any]]:
        """The tensors that were found, each with what holds it."""
        return [(held, place) for held, place in self._met() if isinstance(held, Tensor)]

    def _met(self) -> list[tuple[Any, Any]]:
        fixed = [held for held in self.seen.values() if held.__class__ in (tuple, frozenset)]
        return [(held, h) for h in self.holders for held in held_by(h)] + [(held, one) for one in fixed for held in one]

    def let_grow(self, owner: Any) -> bool:
        """No longer guards what is in a list to which the run has only appended: code that ran names its one place for that alone."""
        places = self.places(owner)
        if type(owner) is not list or len(places) != 1 or self.everything:
            return False
        (place,) = places
        if isinstance(place, Cell):
            name = place.path
        elif isinstance(place, (Fields, Namespace)) and id(place.owner) not in self._wholly:
            name = next(key for key, held in place.before.items() if held is owner)
        else:
            return False
        read = self._asked.union(*[names.read for names in self.ran.values()])
        if name in read or "__self__" in read:
            return False
        self.holders = [h for h in self.holders if not (isinstance(h, Sequence) and h.owner is owner)]
        return True

    # -- kinds of objects --------------------------------------------------------------------------------------------

    def _class(self, kind: type) -> None:
        if (
            type(kind) is not type
            and id(type(kind)) not in self.seen
            and home_of(type(kind)) not in ("abc", "enum", "typing")
        ):
            self._class(type(kind))
        for base in kind.__mro__:
            if (id(base) in self.seen and base is not kind) or not self._written_in_python(base):
                continue
            self.seen[id(base)] = base
            if home_of(base) in ("typing", "abc", "collections.abc") or class_is_trusted(base) or base in self._known:
                continue
            self._known.add(base)
            fields = Fields(base, base.__qualname__)
            for name, value in fields.before.items():
                if callable(value) or hasattr(type(value), "__get__"):
                    fields.names[name] = None
                    self._descriptor(value, f"{base.__qualname__}.{name}")
            self._have(fields)

    def _descriptor(self, value: Any, path: str) -> None:
        if isinstance(value, property):
            for inner in (value.fget, value.fset, value.fdel):
                if inner is not None:
                    self.reach(inner, path)
        elif isinstance(value, (staticmethod, classmethod)):
            self.reach(value.__func__, path)
        elif isinstance(value, types.FunctionType) or (
            hasattr(type(value), "__get__") and self._written_in_python(type(value))
        ):
            self.reach(value, path)

    def _function(self, value: Any, path: str) -> None:
        self._functions.setdefault(id(value.__code__), []).append((value, path))
        if value.__dict__:
            self._have(Fields(value, path))
        if id(value.__code__) in self.ran:
            self._running(value, path)

    def _running(self, function: Any, path: str) -> None:
        """A function of which its code ran: its variables and defaults."""
        self.add(Code(function, path))
        for value in function.__defaults__ or ():
            self.reach(value, f"a default of {path}")
        for name, value in (function.__kwdefaults__ or {}).items():
            self.reach(value, f"the default {name} of {path}")
        chains = self.ran[id(function.__code__)].cells
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            if id(cell) not in self.seen:
                self.seen[id(cell)] = cell
                held = self.add(Cell(cell, name)).before
                if isinstance(held, types.ModuleType) and not isinstance(held, Site):
                    for chain in chains.get(name, ((),)):
                        self._chain(held, name, chain)
                elif held is not MISSING:
                    self.reach(held, name)

    def _bounded(self, value: Any, path: str) -> None:
        if len(value) > MOST:
            raise Unguarded(f"{path} has {len(value):,} entries: too many to guard")

    def _dictionary(self, value: Any, path: str) -> None:
        self._bounded(value, path)
        for key, held in self.add(Items(value, path)).before.items():
            self.reach(key, f"a key of {path}")
            self.reach(held, f"{path}[{(key if plain(key) else type(key))!r}]")
        if isinstance(value, defaultdict):
            factory = self.add(Answer(lambda: value.default_factory, f"{path}.default_factory")).expected[0]
            self.reach(factory, f"{path}.default_factory")

    def _sequence(self, value: Any, path: str) -> None:
        self._bounded(value, path)
        for i, held in enumerate(self.add(Sequence(value, path)).before):
            self.reach(held, f"{path}[{i}]")

    def _members(self, value: Any, path: str) -> None:
        self._bounded(value, path)
        for held in self.add(Members(value, path)).before:
            self.reach(held, f"an element of {path}")

    def _fixed(self, value: Any, path: str) -> None:
        """A tuple or frozenset: it stays as it is, what it holds may not."""
        self._bounded(value, path)
        for i, held in enumerate(value):
            self.reach(held, f"{path}[{i}]")

    def _array(self, value: Any, path: str) -> None:
        """An array of NumPy's; one that is an argument is most likely another in each call."""
        self._bytes += value.nbytes
        if value.dtype.hasobject or self._bytes > MOST_BYTES or id(value) in self.others:
            raise Unguarded(f"{path} is a ndarray, whose state cannot be guarded")
        self.add(Elements(value, path))

    def _weak(self, value: Any, path: str) -> None:
        self.add(Answer(value, f"{path}()"))
        self.reach(value(), f"{path}()")

    def _variable(self, value: Any, path: str) -> None:
        self.reach(self.add(Answer(functools.partial(value.get, MISSING), path)).expected[0], path)

    def _cached(self, value: Any, path: str) -> None:
        """What a cache of results keeps may be given to the run, if it is asked: why that cannot be guarded matters only then."""
        waiting, self._waiting, problem = self._waiting, [], ""
        try:
            held = results_of(value)
            self._bounded(held, path)
            for one in held:
                self.root(one, f"a result of {path}")
        except Unguarded as error:
            problem = str(error)
        finally:
            self._waiting = waiting
        self.caches.append((value, value.cache_info(), path, problem))


def results_of(cache: Any) -> list[Any]:
    """What a function with `functools.lru_cache` keeps: results, and the arguments that it knows them by."""
    found: list[Any] = []
    for held in gc.get_referents(cache):
        if held.__class__ is dict:
            found += [] if held is cache.__dict__ else [one for one in held.values() if type(one).__name__ != _LINK]
        elif not isinstance(held, type) and held.__class__ is not object and held is not cache.__wrapped__:
            found.append(held)
    return found


_LINK = "_lru_list_elem"


def _parts_of(*names: str) -> Any:
    """Opens an object that never changes by its parts."""

    def parts(reach: Reach, value: Any, path: str) -> None:
        for name in names:
            held = getattr(value, name, None)
            if held is not None and not isinstance(held, types.ModuleType):
                reach.reach(held, f"{path}.{name}")

    return parts


_OPENED: dict[type, Any] = {
    dict: Reach._dictionary, list: Reach._sequence, deque: Reach._sequence, set: Reach._members, tuple: Reach._fixed,
    frozenset: Reach._fixed, types.FunctionType: Reach._function, types.MethodType: _parts_of("__func__", "__self__"),
    functools.partial: _parts_of("func", "args", "keywords"), weakref.ref: Reach._weak, contextvars.ContextVar: Reach._variable, types.CellType: lambda *_: None,
    types.BuiltinFunctionType: _parts_of("__self__"), property: _parts_of("fget", "fset", "fdel"), staticmethod: _parts_of("__func__"),
    classmethod: _parts_of("__func__"), type(functools.lru_cache(len)): Reach._cached, OrderedDict: Reach._dictionary,
    functools.cached_property: _parts_of("func"), types.SimpleNamespace: lambda reach, value, path: reach._have(Fields(value, path)),
    defaultdict: Reach._dictionary, types.MappingProxyType: Reach._dictionary, np.ndarray: Reach._array,
}  # fmt: skip
_CONTENTS: dict[Any, Any] = {
    dict: Reach._dictionary,
    list: Reach._sequence,
    set: Reach._members,
    deque: Reach._sequence,
    tuple: Reach._fixed,
}
_ERRORS = {e for e in vars(builtins).values() if isinstance(e, type) and issubclass(e, BaseException)}
_BASES = {
    object,
    int,
    float,
    str,
    bytes,
    complex,
    bool,
    frozenset,
    types.ModuleType,
    Generic,
    *_CONTENTS,
    *_OPENED,
    *_ERRORS,
}
# What cannot change and has no parts of interest.
_CONSTANTS = {
    types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType,
    types.MethodWrapperType, object, operator.itemgetter, operator.attrgetter, operator.methodcaller, types.ClassMethodDescriptorType, types.CodeType, types.GenericAlias, type(int | str), re.Pattern, np.ufunc, DISPATCHER,
}  # fmt: skip
