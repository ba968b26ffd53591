"""`SymInt`, `SymFloat`, `SymBool`: numbers that depend on sizes which change from call to call, with the value of an example.

Without an expression they carry a plain number, and computing with them gives plain numbers.
"""

from __future__ import annotations

import operator
from typing import Any

from .expressions import Expr


class _Symbolic:
    """A number: `node` is its expression (that of a bool in words), or the number itself."""

    kind: type = int

    def __init__(self, node: Any, hint: Any = None):
        self.node, self.hint = node, hint

    def _value(self) -> Any:
        return self.kind(self.node if self.hint is None else self.hint)

    def __repr__(self) -> str:
        return str(self.node if isinstance(self.node, (Expr, str)) else self._value())

    def __bool__(self) -> bool:
        return bool(self._value())

    def __int__(self) -> int:
        return int(self._value())

    def __float__(self) -> float:
        return float(self._value())

    def __hash__(self) -> int:
        return hash(self._value())

    def __eq__(self, other: object) -> bool:
        return bool(self._value() == _plain(other))


class SymInt(_Symbolic):
    """Like an integer.

    >>> import flambeau as torch
    >>> from flambeau._core.expressions import symbol
    >>> from flambeau._core.symbolic import SymInt
    >>> isinstance(3, SymInt), SymInt(3) + 1, list(range(SymInt(2)))
    (False, 4, [0, 1])
    >>> size = SymInt(symbol("s0"), 5)
    >>> 2 * size + 1, int(2 * size + 1), size > 3
    (2*s0 + 1, 11, True)
    """

    def __index__(self) -> int:
        return int(self._value())


class SymFloat(_Symbolic):
    """Like a floating-point number."""

    kind = float


class SymBool(_Symbolic):
    """Like a bool."""

    kind = bool

    def assume(self) -> bool:
        """The answer, for a program that states it (`torch._check`)."""
        return bool(self)


def _plain(x: Any) -> Any:
    return x._value() if isinstance(x, _Symbolic) else x


def _expression(x: Any) -> Any:
    found = x.node if isinstance(x, SymInt) else x
    return found if isinstance(found, (Expr, int)) else None


_WHOLE = ("add", "sub", "mul", "floordiv", "mod")


def _install(name: str) -> None:
    function = getattr(operator, name)
    plain = name.rstrip("_")

    def computed(a: Any, b: Any) -> Any:
        result = function(_plain(a), _plain(b))
        x, y = _expression(a), _expression(b)
        if name in _WHOLE and (isinstance(x, Expr) or isinstance(y, Expr)) and x is not None and y is not None:
            return SymInt(function(x, y), result)
        return result

    setattr(_Symbolic, f"__{plain}__", lambda self, other: computed(self, other))
    if name not in ("lt", "le", "gt", "ge"):
        setattr(_Symbolic, f"__r{plain}__", lambda self, other: computed(other, self))


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "lt", "le", "gt", "ge"):
    _install(_name)
