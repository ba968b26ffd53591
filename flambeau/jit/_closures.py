"""Small closures over a frame of slots, and names in syntax trees: what the compiler of programs is made of."""

from __future__ import annotations

import ast
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from .._core.dtypes import BY_NAME
from ._operators import dtype_code

Closure = Callable[[list[Any]], Any]


def nothing(f: list[Any]) -> None:
    """A statement that does nothing."""


def putter(at: int) -> Callable[[list[Any], Any], None]:
    def put(f: list[Any], value: Any) -> None:
        f[at] = value

    return put


def constant(value: Any) -> Closure:
    """A closure that gives a constant; `apply` reads it through `fixed`."""

    def read(f: list[Any]) -> Any:
        return value

    read.fixed = (value,)  # type: ignore[attr-defined]
    return read


def _slot(closure: Any) -> int | None:
    """The place that a closure reads, if it does only that."""
    return closure.__reduce__()[1][0] if closure.__class__ is itemgetter else None


def apply(function: Any, args: list[Closure], named: list[tuple[Any, Closure]]) -> Closure:
    """A call with fixed numbers of arguments; the common ones without building lists."""
    if named:
        if not args:
            return lambda f: function(**{k: v(f) for k, v in named})
        return lambda f: function(*[a(f) for a in args], **{k: v(f) for k, v in named})
    if len(args) == 1:
        return _applied_to_one(getattr(function, "one", function), args[0])
    if len(args) == 2:
        return _applied_to_two(function, *args)
    if len(args) == 3:
        a, b, c = args
        return lambda f: function(a(f), b(f), c(f))
    return lambda f: function(*[a(f) for a in args])


def _applied_to_one(function: Any, a: Closure) -> Closure:
    at = _slot(a)
    if at is None:
        return lambda f: function(a(f))
    return lambda f: function(f[at])


def _applied_to_two(function: Any, a: Closure, b: Closure) -> Closure:
    first, second = _slot(a), _slot(b)
    if first is not None and second is not None:
        return lambda f: function(f[first], f[second])
    if first is not None and hasattr(b, "fixed"):
        (value,) = b.fixed
        return lambda f: function(f[first], value)
    return lambda f: function(a(f), b(f))


def dotted(node: ast.AST) -> list[str] | None:
    """The parts of `a.b.c`; None for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return [node.id, *reversed(parts)]


def dtype_named(name: str) -> int | None:
    found = BY_NAME.get(name)
    return None if found is None else dtype_code(found)
