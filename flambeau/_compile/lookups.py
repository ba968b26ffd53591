"""Attributes that are asked for by computed names: `getattr` and its relatives tell a trail while it watches.

So do functions of `math` that answer questions about numbers, which would not ask these.
"""

from __future__ import annotations

import builtins
import math
import sys
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

BY_NAME = ("getattr", "hasattr", "setattr", "delattr")  # ask for an attribute by their second argument
OF_ALL = ("vars", "dir")  # ask for all attributes of an object
_OF_NUMBERS = ("isfinite", "isinf", "isnan")  # of `math`
deciders: dict[type, Callable[[Any, Any], Any]] = {}  # by classes of numbers: what answers such a function in its place


_lock = threading.RLock()  # a finalizer may run a compiled function in the midst
_watching: dict[int, list[Lookups]] = {}  # those that are open, by thread, innermost last
_before: dict[tuple[Any, str], Any] = {}  # what stood in the modules while some are


class Lookups:
    """While open, the functions of this thread that look attributes up tell which: `named(name)` and `all_of(object)` are called.

    The builtins are the whole process's: the first thread that watches replaces them, the last one puts them back.
    """

    def __init__(self, named: Callable[[str], None], all_of: Callable[[Any], None]):
        self.named, self.all_of = named, all_of
        self._thread = threading.get_ident()

    def open(self) -> None:
        with _lock:
            if not _watching:
                for module, names, telling in _TOLD:
                    for name in names:
                        _before[module, name] = getattr(module, name)
                        setattr(module, name, telling(_before[module, name]))
            _watching.setdefault(self._thread, []).append(self)

    def close(self) -> None:
        with _lock:
            mine = _watching.get(self._thread, [])
            if self not in mine:
                return
            mine.remove(self)
            if not mine:
                del _watching[self._thread]
            if not _watching:
                while _before:
                    (module, name), function = _before.popitem()
                    setattr(module, name, function)


def _by_name(function: Any) -> Any:
    def ask(*args: Any) -> Any:
        mine = _watching.get(threading.get_ident())
        if mine and len(args) > 1 and isinstance(args[1], str):
            if args[1] == "__dict__":
                mine[-1].all_of(args[0])
            else:
                mine[-1].named(args[1])
        return function(*args)

    ask.stands_for = function  # type: ignore[attr-defined]
    return ask


def _of_all(function: Any) -> Any:
    def ask(*args: Any) -> Any:
        mine = _watching.get(threading.get_ident())
        if not args:  # the names at the place of the call, which the function itself would look for here
            names = sys._getframe(1).f_locals
            names = names if hasattr(names, "clear") else dict(names)  # a function's own, from Python 3.13 on: a copy
            return names if function.__name__ == "vars" else sorted(names)
        if mine:
            mine[-1].all_of(args[0])
        return function(*args)

    ask.stands_for = function  # type: ignore[attr-defined]
    return ask


def _of_number(function: Any) -> Any:
    def ask(*args: Any) -> Any:
        decide = deciders.get(type(args[0])) if len(args) == 1 else None
        return function(*args) if decide is None else decide(args[0], function)

    ask.stands_for = function  # type: ignore[attr-defined]
    return ask


_TOLD = (builtins, BY_NAME, _by_name), (builtins, OF_ALL, _of_all), (math, _OF_NUMBERS, _of_number)


def standing(value: Any) -> Any:
    """What the program itself put where a function stands that tells trails, perhaps another thread's; any other value itself."""
    if value.__class__ is FunctionType and value.__code__ in TRANSPARENT:
        return value.__dict__["stands_for"]
    return value


TRANSPARENT = frozenset(c for _, _, f in _TOLD for c in f.__code__.co_consts if hasattr(c, "co_code"))
