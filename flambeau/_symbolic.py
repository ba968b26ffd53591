"""`SymInt`, `SymFloat`, `SymBool`: numbers that a compiler does not know yet. Sizes are always known here, so that these
only carry a number; programs ask for them with `isinstance`."""

from __future__ import annotations

import operator
from typing import Any

__all__ = ["SymBool", "SymFloat", "SymInt"]


class _Symbolic:
    """A number in a box; computing with it gives plain numbers."""

    kind: type = int

    def __init__(self, node: Any):
        self.node = node

    def _value(self) -> Any:
        return self.kind(self.node)

    def __repr__(self) -> str:
        return str(self._value())

    def __bool__(self) -> bool:
        return bool(self.node)

    def __int__(self) -> int:
        return int(self.node)

    def __float__(self) -> float:
        return float(self.node)

    def __hash__(self) -> int:
        return hash(self._value())

    def __eq__(self, other: object) -> bool:
        return bool(self._value() == _plain(other))


class SymInt(_Symbolic):
    """Like an integer.

    >>> import flambeau as torch
    >>> from flambeau._symbolic import SymInt
    >>> isinstance(3, SymInt), SymInt(3) + 1, list(range(SymInt(2)))
    (False, 4, [0, 1])
    """

    def __index__(self) -> int:
        return int(self.node)


class SymFloat(_Symbolic):
    """Like a floating-point number."""

    kind = float


class SymBool(_Symbolic):
    """Like a bool."""

    kind = bool


def _plain(x: Any) -> Any:
    return x._value() if isinstance(x, _Symbolic) else x


def _install(name: str) -> None:
    function = getattr(operator, name)
    plain = name.rstrip("_")
    setattr(_Symbolic, f"__{plain}__", lambda self, other: function(self._value(), _plain(other)))
    if name not in ("lt", "le", "gt", "ge"):
        setattr(_Symbolic, f"__r{plain}__", lambda self, other: function(_plain(other), self._value()))


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "lt", "le", "gt", "ge"):
    _install(_name)
