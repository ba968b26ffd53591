"""Marks for the compiler that programs put on functions and values."""

from __future__ import annotations

import builtins
import contextlib
import re
import types
import typing
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

__all__ = [
    "Attribute", "Final", "annotate", "export", "export_opnames", "ignore", "interface", "isinstance", "script_if_tracing",
    "unused",
]  # fmt: skip

_T = TypeVar("_T")


class Attribute(NamedTuple):
    """A value with a type, for `ScriptModule`."""

    value: Any
    type: Any


def annotate(the_type: Any, the_value: _T) -> _T:
    """The value; the type is only told.

    >>> import flambeau as torch
    >>> torch.jit.annotate(int, 3)
    3
    """
    return the_value


def _marked(fn: Any, modifier: str) -> Any:
    with contextlib.suppress(AttributeError):
        fn._torchscript_modifier = modifier
    return fn


def export(fn: _T) -> _T:
    """Marks a method for compilation although `forward` does not call it; the function itself."""
    return _marked(fn, "export")


def unused(fn: _T) -> _T:
    """Marks a method that compiled code never calls; the function itself."""
    return _marked(fn, "unused")


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Marks a function that stays Python: `@ignore` and `@ignore(drop=True)`."""
    if callable(drop):
        return _marked(drop, "ignore")
    return lambda fn: _marked(fn, "unused" if drop else "ignore")


def interface(obj: _T) -> _T:
    """Marks a class that says which methods others have; the class itself."""
    return obj


def script_if_tracing(fn: _T) -> _T:
    """Marks a function that is compiled inside of traces; the function itself."""
    return fn


def _overload(func: _T) -> _T:
    return func


def _overload_method(func: _T) -> _T:
    return func


def export_opnames(m: Any) -> list[str]:
    """The operators that a compiled module uses.

    >>> import flambeau as torch
    >>> torch.jit.export_opnames(torch.jit.trace(torch.nn.ReLU(), torch.ones(1)))
    ['aten::relu']
    """
    from ._units import as_module  # compiled modules know this file

    found = set()
    for text in as_module(m)._script.program.files().values():
        found.update(f"aten::{name}" for name in re.findall(r"\btorch\.(\w+)\(", text))
        found.update(f"{space}::{name}" for space, name in re.findall(r"\bops\.(\w+)\.(\w+)\(", text))
    return sorted(found)


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether an object is of a type, also of container types such as `list[int]`.

    >>> import flambeau as torch
    >>> torch.jit.isinstance([1, 2], list[int]), torch.jit.isinstance({"a": 1}, dict[str, float])
    (True, False)
    """
    if builtins.isinstance(target_type, tuple):
        return any(isinstance(obj, t) for t in target_type)
    origin, inside = typing.get_origin(target_type), typing.get_args(target_type)
    if origin is None:
        return builtins.isinstance(obj, type(None) if target_type is None else target_type)
    if origin in (typing.Union, types.UnionType):
        return any(isinstance(obj, t) for t in inside)
    if not builtins.isinstance(obj, origin):
        return False
    if origin is dict:
        return all(isinstance(k, inside[0]) and isinstance(v, inside[1]) for k, v in obj.items())
    if origin is tuple:
        if len(inside) == 2 and inside[1] is ...:
            return all(isinstance(x, inside[0]) for x in obj)
        return len(obj) == len(inside) and all(map(isinstance, obj, inside))
    return all(isinstance(x, inside[0]) for x in obj)


Marked = Callable[..., Any]
