"""Arguments of scripted functions: bound, checked against the declared types and converted, as TorchScript does."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

from .._tensor import Tensor
from ..nn.modules.module import Module

_NO_VALUE = inspect.Parameter.empty
_SCALARS = {int: (bool, int), float: (bool, int, float), complex: (bool, int, float, complex)}


class _Mismatch(Exception):
    """A value that is not of the declared type."""


def _text(kind: Any) -> str:
    """A type as TorchScript writes it."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if kind is _NO_VALUE:
        return "Tensor (inferred)"
    if origin in (typing.Union, types.UnionType):
        rest = [k for k in inside if k is not type(None)]
        if len(rest) == 1 and len(inside) == 2:
            return f"Optional[{_text(rest[0])}]"
        return f"Union[{', '.join(map(_text, inside))}]"
    if origin in (list, dict, tuple):
        return f"{origin.__name__.capitalize()}[{', '.join(map(_text, inside))}]"
    return getattr(kind, "__name__", str(kind))


def _converted(value: Any, kind: Any) -> Any:
    """The value as compiled code sees it; what has a type that is not known here stays as it is."""
    if kind is Tensor or kind is _NO_VALUE:
        if value is not None and not isinstance(value, Tensor):
            raise _Mismatch
        return value
    if kind in _SCALARS:
        if (isinstance(value, Tensor) and value.numel() == 1) or isinstance(value, _SCALARS[kind]):
            return kind(value)
        raise _Mismatch
    if kind is bool:
        if not isinstance(value, (bool, int, Tensor)):
            raise _Mismatch
        return bool(value)
    if kind is str or kind is type(None):
        if not isinstance(value, kind):
            raise _Mismatch
        return value
    return _container(value, typing.get_origin(kind), typing.get_args(kind))


def _container(value: Any, origin: Any, inside: tuple[Any, ...]) -> Any:
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in inside:
            return None
        for option in inside:
            try:
                return _converted(value, option)
            except _Mismatch:
                continue
        raise _Mismatch
    if origin is list:
        if not isinstance(value, (list, tuple)):
            raise _Mismatch
        return [_converted(v, inside[0]) for v in value]
    if origin is dict:
        if not isinstance(value, dict):
            raise _Mismatch
        return {_converted(k, inside[0]): _converted(v, inside[1]) for k, v in value.items()}
    if origin is tuple and Ellipsis not in inside:
        if not isinstance(value, (list, tuple)) or len(value) != len(inside):
            raise _Mismatch
        return tuple(map(_converted, value, inside))
    return value


class Signature:
    """The declared arguments of a function.

    `lenient` leaves arguments without an annotation unchecked, which TorchScript takes for tensors.
    """

    def __init__(self, function: Callable[..., Any], lenient: bool = False):
        self.name = function.__name__
        self.parameters = list(inspect.signature(function).parameters.values())
        try:
            hints = typing.get_type_hints(function)
        except (NameError, TypeError, AttributeError):  # what cannot be read is not checked
            hints, lenient = {}, True
        if "# type:" in _source(function):
            lenient = True  # types in comments
        self.kinds = [
            hints.get(p.name, Any if lenient or p.default is not _NO_VALUE else _NO_VALUE) for p in self.parameters
        ]
        self.open = any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in self.parameters)
        self.result = hints.get("return")

    def __str__(self) -> str:
        listed = []
        for p, kind in zip(self.parameters, self.kinds):
            ending = "" if p.default is _NO_VALUE else f"={p.default!r}"
            listed.append(p.name if p.name == "self" else f"{_text(kind).removesuffix(' (inferred)')} {p.name}{ending}")
        result = "Tensor" if self.result is None else _text(self.result)
        return f"{self.name}({', '.join(listed)}) -> {result}"

    def convert(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call, of their declared types; RuntimeError says what does not fit."""
        if self.open:
            return args, named
        if len(args) > len(self.parameters):
            raise RuntimeError(
                f"{self.name}() expected at most {len(self.parameters)} argument(s) but received {len(args)} "
                f"argument(s). Declaration: {self}"
            )
        given, rest = list(args), dict(named)
        converted = []
        for position, (p, kind) in enumerate(zip(self.parameters, self.kinds)):
            if position < len(given):
                if p.name in rest:
                    raise RuntimeError(f"{self.name}() got argument '{p.name}' twice. Declaration: {self}")
                value = given[position]
            elif p.name in rest:
                value = rest.pop(p.name)
            elif p.default is not _NO_VALUE:
                converted.append(p.default)
                continue
            else:
                raise RuntimeError(f"{self.name}() is missing value for argument '{p.name}'. Declaration: {self}")
            itself = p.name == "self" or (position == 0 and isinstance(value, Module))  # whatever its method calls it
            converted.append(value if kind is Any or itself else self._checked(value, kind, p.name, position))
        if rest:
            raise RuntimeError(f"Unknown keyword argument '{min(rest)}' for operator '{self.name}'. Schema: {self}")
        count = sum(p.kind is not p.KEYWORD_ONLY for p in self.parameters)
        return tuple(converted[:count]), {p.name: v for p, v in zip(self.parameters[count:], converted[count:])}

    def _checked(self, value: Any, kind: Any, name: str, position: int) -> Any:
        try:
            return _converted(value, kind)
        except _Mismatch:
            raise RuntimeError(
                f"{self.name}() Expected a value of type '{_text(kind)}' for argument '{name}' but instead found type "
                f"'{type(value).__name__}'.\nPosition: {position}\nValue: {value!r:.200}\nDeclaration: {self}"
            ) from None


def _source(function: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return ""
