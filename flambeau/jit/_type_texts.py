"""Python's annotations as types of TorchScript."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

from .._core.devices import device
from .._core.dtypes import dtype
from .._tensor import Tensor
from ._errors import Problem

_SPECIAL_TYPES = {Tensor: "Tensor", type(None): "NoneType", device: "Device", dtype: "int", Any: "Any"}


def type_text(kind: Any, named: Callable[[Any], str] | None = None) -> str:
    """A Python annotation as a TorchScript type; `named` gives the path of a class of named tuples."""
    if kind is inspect.Parameter.empty:
        return "Tensor"
    if isinstance(kind, str):
        raise Problem(f"the annotation {kind!r} cannot be read")
    if kind is None or kind in _SPECIAL_TYPES:
        return _SPECIAL_TYPES.get(kind, "NoneType")
    if kind in (int, float, bool, str, complex):
        return kind.__name__
    if named is not None and is_named_tuple(kind):
        return named(kind)
    text_of = lambda part: type_text(part, named)
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:  # a list, of so many numbers where one is given
        elements = next(k for k in (inside[0], *typing.get_args(inside[0])) if typing.get_origin(k) is list)
        return f"BroadcastingList{inside[1]}[{text_of(*typing.get_args(elements))}]"
    if origin in (typing.Union, types.UnionType):
        parts = [a for a in inside if a is not type(None)]
        text = text_of(parts[0]) if len(parts) == 1 else f"Union[{', '.join(map(text_of, parts))}]"
        return f"Optional[{text}]" if len(parts) < len(inside) else text
    names = {list: "List", dict: "Dict", tuple: "Tuple"}
    if origin in names:
        return f"{names[origin]}[{', '.join(map(text_of, inside)) or '()'}]"
    raise Problem(f"the type {kind} cannot be written as TorchScript")


def is_named_tuple(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")
