"""Attributes that are asked for by computed names: `getattr` and its relatives tell a trail while it watches."""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable
from typing import Any

BY_NAME = ("getattr", "hasattr", "setattr", "delattr")  # ask for an attribute by their second argument
OF_ALL = ("vars", "dir")  # ask for all attributes of an object


class Lookups:
    """While open, the functions of this thread that look attributes up tell which: `named(name)` and `all_of(object)` are called."""

    def __init__(self, named: Callable[[str], None], all_of: Callable[[Any], None]):
        self.before: dict[str, Any] = {}
        self._named, self._all_of = named, all_of
        self._thread = threading.get_ident()

    def open(self) -> None:
        for name in (*BY_NAME, *OF_ALL):
            function = self.before[name] = getattr(builtins, name)
            setattr(builtins, name, self._by_name(function) if name in BY_NAME else self._of_all(function))

    def close(self) -> None:
        while self.before:
            name, function = self.before.popitem()
            setattr(builtins, name, function)

    def _by_name(self, function: Any) -> Any:
        def ask(*args: Any) -> Any:
            if threading.get_ident() == self._thread and len(args) > 1 and isinstance(args[1], str):
                if args[1] == "__dict__":
                    self._all_of(args[0])
                else:
                    self._named(args[1])
            return function(*args)

        return ask

    def _of_all(self, function: Any) -> Any:
        def ask(*args: Any) -> Any:
            if threading.get_ident() == self._thread and args:
                self._all_of(args[0])
            return function(*args)

        return ask


TRANSPARENT = frozenset(
    c for f in (Lookups._by_name, Lookups._of_all) for c in f.__code__.co_consts if hasattr(c, "co_code")
)
