"""The schema of a function from its annotations."""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any

from .._core.devices import device
from .._core.dtypes import dtype
from .._tensor import Tensor

__all__ = ["infer_schema"]

_NAMES = {
    Tensor: "Tensor",
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    dtype: "ScalarType",
    device: "Device",
}
_LISTS = (list, collections.abc.Sequence)


def _of_type(kind: Any, mark: str = "") -> str | None:
    """The schema's word for a type; None for those that an operator cannot have."""
    if kind in _NAMES:
        return _NAMES[kind] + (mark if kind is Tensor else "")
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        rest = [k for k in inside if k is not type(None)]
        if len(rest) == 1:
            word = _of_type(rest[0], mark)
            return None if word is None else word + "?"
        if set(rest) == {int, float, bool}:
            return "Scalar?" if len(rest) < len(inside) else "Scalar"
        return None
    if origin in _LISTS and len(inside) == 1:
        word = _of_type(inside[0], mark)
        return None if word is None else word + "[]"
    return None


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
    tags: Any = (),
) -> str:
    """The schema of a function whose parameters and result are annotated.

    >>> import flambeau as torch
    >>> def scale(x: torch.Tensor, by: float = 2.0) -> torch.Tensor: ...
    >>> infer_schema(scale, mutates_args=())
    '(Tensor x, float by=2.0) -> Tensor'
    """
    signature = inspect.signature(prototype_function)

    def refuse(what: str) -> typing.NoReturn:
        raise ValueError(f"infer_schema(func): {what} Got func with signature {signature})")

    hints = _hints(prototype_function)
    written = mutates_args if isinstance(mutates_args, str) else set(mutates_args)
    if isinstance(written, str) and written != "unknown":
        raise ValueError(
            "mutates_args must either be a sequence of the names of the arguments that are mutated or the string 'unknown'. "
        )
    if isinstance(written, set):
        unknown = written - set(signature.parameters)
        if unknown:
            refuse(
                f"{unknown} in mutates_args were not found in the custom op's signature. mutates_args names arguments."
            )
    parts: list[str] = []
    starred = False
    for number, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            refuse("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        if parameter.annotation is parameter.empty:
            refuse(f"Parameter {name} must have a type annotation.")
        mark = f"(a{number}!)" if written == "unknown" or name in written else ""
        word = _of_type(hints[name], mark)
        if word is None:
            refuse(f"Parameter {name} has unsupported type {hints[name]}.")
        if mark and "Tensor" not in word:
            if written != "unknown":
                refuse(f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors can be mutated")
        parts.append(f"{word} {name}{_default(name, parameter, refuse)}")
    if signature.return_annotation is signature.empty:
        refuse("No return type annotation was provided. Please add one.")
    return f"{op_name or ''}({', '.join(parts)}) -> {_returned(hints.get('return'), refuse)}"


def _hints(function: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except NameError as error:
        raise ValueError(f"infer_schema(func): an annotation cannot be resolved: {error}") from None


def _default(name: str, parameter: inspect.Parameter, refuse: Any) -> str:
    value = parameter.default
    if value is parameter.empty:
        return ""
    if isinstance(value, str):
        return f'="{value}"'
    if value is None or isinstance(value, (int, float, bool)):
        return f"={value}"
    if isinstance(value, dtype):
        return f"={str(value).removeprefix('torch.')}"
    if isinstance(value, device):
        return f'="{value}"'
    return refuse(f"Parameter {name} has an unsupported default value type {type(value)}.")


def _returned(kind: Any, refuse: Any) -> str:
    if kind is None or kind is type(None):
        return "()"
    if typing.get_origin(kind) is tuple:
        words = [_of_type(k) for k in typing.get_args(kind)]
        if all(words):
            return f"({', '.join(w for w in words if w)})"
    word = _of_type(kind)
    if word is None or word.endswith("?"):
        refuse(f"Return has unsupported type {kind}.")
    return word  # type: ignore[return-value]
