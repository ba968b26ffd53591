"""What a checkpoint would load, found without loading anything."""

from __future__ import annotations

import pickle
from typing import Any

from . import weights_only
from .archive import Reader
from .options import _safe
from .weights_only import Unpickler, allowed


class _Anything:
    """Stands for whatever a name would give."""


class NameReader(Unpickler):
    """Walks through a pickle and notes the names in it; nothing is looked up, called or filled."""

    def __init__(self, data: Any, position: int = 0):
        super().__init__(data, position, lambda saved: _Anything())
        self.names: list[str] = []

    def _look_up(self, module: str, name: str, full: str) -> Any:
        if full not in self.names:
            self.names.append(full)
        return _Anything()


def _forget(count: int) -> Any:
    """Takes values from the stack; the last one left stands for the result."""

    def handler(u: Unpickler) -> None:
        del u._stack[-count:]

    return handler


def _call(count: int) -> Any:
    def handler(u: Unpickler) -> None:
        u._stack[-count:] = [_Anything()]

    return handler


NameReader.handlers = list(Unpickler.handlers)
for _codes, _handler in (
    (pickle.REDUCE + pickle.NEWOBJ, _call(2)),
    (pickle.NEWOBJ_EX, _call(3)),
    (pickle.BUILD + pickle.APPEND, _forget(1)),
    (pickle.SETITEM, _forget(2)),
    (pickle.APPENDS + pickle.SETITEMS + pickle.ADDITEMS, lambda u: u._pop_mark() and None),
    (pickle.DICT, lambda u: u._list_of()),
):
    for _code in _codes:
        NameReader.handlers[_code] = _handler


def unsafe_names(names: list[str]) -> list[str]:
    """Those that `load(weights_only=True)` would refuse."""
    return [name for name in names if (not allowed(name) and name not in _safe) or weights_only.blocked(name)]


def names_in_archive(archive: Reader) -> list[str]:
    reader = NameReader(archive.read("data.pkl"))
    reader.load()
    return reader.names


def names_in_legacy(data: bytes) -> list[str]:
    """The names in a file of the old format: three small pickles come before that of the object."""
    position = 0
    for _ in range(4):
        reader = NameReader(data, position)
        reader.load()
        position = reader.position
    return reader.names
