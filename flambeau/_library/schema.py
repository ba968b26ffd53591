"""Schemas of operators: `ns::name.overload(Tensor x, int y=2) -> Tensor`, read from text and written back."""

from __future__ import annotations

import ast
import enum
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .._core.devices import device
from .._core.dtypes import ALL, dtype
from .._core.layouts import layout, memory_format
from .._tensor import Tensor

_PLAIN = {"SymInt": "int", "SymBool": "bool", "Scalar": "number", "ScalarType": "int", "Layout": "int"}
_MISSING = object()
_BY_NAME: dict[Any, Any] = {str(kind).removeprefix("torch."): kind for kind in ALL}


Tag = enum.IntEnum(
    "Tag",
    "core cudagraph_unsafe data_dependent_output dynamic_output_shape flexible_layout generated inplace inplace_view "
    "maybe_aliasing_or_mutating needs_contiguous_strides needs_exact_strides needs_fixed_stride_order "
    "nondeterministic_bitwise nondeterministic_seeded out out_variant pointwise pt2_compliant_tag reduction view_copy",
    module="torch",
    start=0,
)  # what may be said of an operator; nothing here asks for it


def type_text(kind: str) -> str:
    """The type of an argument as PyTorch prints it: `Optional[List[int]]` for `SymInt[]?`."""
    if kind.endswith("?"):
        return f"Optional[{type_text(kind[:-1])}]"
    listed = re.match(r"(.*)\[\d*\]$", kind)
    if listed:
        return f"List[{type_text(listed[1])}]"
    plain = re.sub(r"\(.*?\)", "", kind)
    return _PLAIN.get(plain, plain)


def _default_text(value: Any) -> str:
    """A default as PyTorch prints it: floats with all their digits, whole ones with a point at the end."""
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, float) and math.isfinite(value):
        return f"{int(value)}." if value.is_integer() else f"{value:.17g}"
    return str(value).removeprefix("torch.")


class AliasInfo(NamedTuple):
    """Which memory an argument shares, and whether the operator writes to it."""

    before_set: frozenset[str]
    is_write: bool


def _alias_info(declared: str) -> AliasInfo | None:
    found = re.search(r"\(([^)!]*)(!?)\)", declared)
    if found is None:
        return None
    return AliasInfo(frozenset(name.strip() for name in found[1].partition("->")[0].split("|")), bool(found[2]))


class Argument(NamedTuple):
    """One parameter of a schema."""

    name: str
    declared: str  # the type as it is written, such as `Tensor(a0!)` or `SymInt[]?`
    default: Any = _MISSING
    kwarg_only: bool = False

    @property
    def type(self) -> str:
        return type_text(self.declared)

    @property
    def default_value(self) -> Any:
        return None if self.default is _MISSING else self.default

    def has_default_value(self) -> bool:
        return self.default is not _MISSING

    @property
    def alias_info(self) -> AliasInfo | None:
        return _alias_info(self.declared)

    @property
    def is_write(self) -> bool:
        return "!)" in self.declared

    def __str__(self) -> str:
        if self.default is _MISSING:
            return f"{self.declared} {self.name}"
        shown = _default_text(self.default)
        return f"{self.declared} {self.name}={shown}"


class Return(NamedTuple):
    """One result of a schema."""

    declared: str
    name: str = ""

    @property
    def type(self) -> str:
        return type_text(self.declared)

    @property
    def alias_info(self) -> AliasInfo | None:
        return _alias_info(self.declared)

    def __str__(self) -> str:
        return f"{self.declared} {self.name}" if self.name else self.declared


class FunctionSchema:
    """The name, parameters and results of an operator."""

    def __init__(self, name: str, overload_name: str, arguments: Sequence[Argument], returns: Sequence[Return]):
        self.name, self.overload_name = name, overload_name
        self.arguments, self.returns = list(arguments), list(returns)
        self.positional = [a for a in self.arguments if not a.kwarg_only]
        self.kwarg_only = {a.name: a for a in self.arguments if a.kwarg_only}
        self.checks = [(a.name, _check_of(a.declared), a.type) for a in self.positional]
        self.written = [i for i, a in enumerate(self.positional) if a.is_write]
        self.written_named = [name for name, a in self.kwarg_only.items() if a.is_write]

    @property
    def is_mutable(self) -> bool:
        return bool(self.written or self.written_named)

    def bind(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments of a call, checked, by position where the schema has them so, with defaults."""
        if len(args) > len(self.positional):
            raise RuntimeError(
                f"{self.name}() expected at most {len(self.positional)} argument(s) but received {len(args)} argument(s). "
                f"Declaration: {self}"
            )
        values = list(args)
        rest = dict(named)
        for a in self.positional[len(args) :]:
            if a.name in rest:
                values.append(rest.pop(a.name))
            elif a.default is not _MISSING:
                values.append(a.default)
            else:
                raise RuntimeError(f"{self.name}() is missing value for argument '{a.name}'. Declaration: {self}")
        keywords = {}
        for name, a in self.kwarg_only.items():
            if name in rest:
                keywords[name] = rest.pop(name)
            elif a.default is not _MISSING:
                keywords[name] = a.default
            else:
                raise RuntimeError(f"{self.name}() is missing value for argument '{name}'. Declaration: {self}")
        if rest:
            raise RuntimeError(
                f"Unknown keyword argument '{next(iter(rest))}' for operator '{self.name}'. Schema: {self}"
            )
        for position, (value, (name, check, kind)) in enumerate(zip(values, self.checks)):
            if not check(value):
                raise RuntimeError(
                    f"{self.name}() Expected a value of type '{kind}' for argument '{name}' but instead found type "
                    f"'{type(value).__name__}'.\nPosition: {position}\nValue: {value!r}\nDeclaration: {self}"
                )
        return tuple(values), keywords

    def __str__(self) -> str:
        parts = [str(a) for a in self.positional]
        if self.kwarg_only:
            parts += ["*", *map(str, self.kwarg_only.values())]
        results = ", ".join(map(str, self.returns))
        results = results if len(self.returns) == 1 else f"({results})"
        name = f"{self.name}.{self.overload_name}" if self.overload_name else self.name
        return f"{name}({', '.join(parts)}) -> {results}"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionSchema) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


_KINDS: dict[str, Any] = {
    "Tensor": Tensor,
    "float": (float, int, Tensor),
    "bool": (bool, Tensor),
    "str": str,
    "Scalar": (int, float, complex, bool, Tensor),
    "ScalarType": dtype,
    "Device": (device, str, int),
    "Layout": layout,
    "MemoryFormat": memory_format,
}


def _check_of(kind: str) -> Callable[[Any], bool]:
    """Whether a value may be given for a declared type. Types that we do not know take everything."""
    kind = re.sub(r"\(.*?\)", "", kind)
    if kind.endswith("?"):
        inner = _check_of(kind[:-1])
        return lambda x: x is None or inner(x)
    listed = re.match(r"(.*)\[(\d*)\]$", kind)
    if listed:
        item = _check_of(listed[1])
        one = bool(listed[2])
        return lambda x: (isinstance(x, (list, tuple)) and all(map(item, x))) or (one and item(x))
    if kind in ("int", "SymInt"):
        return lambda x: isinstance(x, Tensor) or (hasattr(x, "__index__") and not isinstance(x, str))
    allowed = _KINDS.get(kind)
    return (lambda x: isinstance(x, allowed) or _like_tensor(x, kind)) if allowed is not None else lambda x: True


def _like_tensor(x: Any, kind: str) -> bool:
    return kind == "Tensor" and hasattr(type(x), "__torch_function__")


# -- reading -------------------------------------------------------------------------------------------------------

_HEAD = re.compile(r"\s*([\w.]+(?:::[\w.]+)?)\s*\(")


def _split(text: str) -> list[str]:
    """Parts between commas that are outside of brackets and quotes."""
    parts, depth, start, quote = [], 0, 0, ""
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'":
            quote = c
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "," and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def _closing(text: str, start: int) -> int:
    """Where the bracket that is open at `start` closes."""
    depth = 0
    for i in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if not depth:
            return i
    raise RuntimeError(f"the schema {text!r} lacks a closing bracket")


def _value(text: str) -> Any:
    if text in ("float", "double", "int", "long", "cpu", "contiguous_format", "Mean", "Sum"):
        return text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _argument(text: str, kwarg_only: bool) -> Argument:
    before, equals, default = text.partition("=")
    kind, _, name = before.strip().rpartition(" ")
    if not kind:
        raise RuntimeError(f"expected a type and a name in the schema, got {text!r}")
    value = _value(default.strip()) if equals else _MISSING
    if kind.strip().startswith("ScalarType"):
        value = _BY_NAME.get(value, value)
    elif kind.strip().startswith("Device") and isinstance(value, str):
        value = device(value)
    return Argument(name, kind.strip(), value, kwarg_only)


def parse_schema(text: str) -> FunctionSchema:
    """Reads a schema.

    >>> schema = parse_schema("lib::scale(Tensor x, float by=2.0, *, bool exact=False) -> Tensor")
    >>> schema.name, [a.name for a in schema.arguments], schema.arguments[1].default_value
    ('lib::scale', ['x', 'by', 'exact'], 2.0)
    >>> print(schema)
    lib::scale(Tensor x, float by=2., *, bool exact=False) -> Tensor
    """
    head = _HEAD.match(text)
    if head is None:
        raise RuntimeError(f"expected a schema such as 'name(Tensor x) -> Tensor', got {text!r}")
    opened = head.end() - 1
    closed = _closing(text, opened)
    _, arrow, results = text[closed + 1 :].partition("->")
    if not arrow:
        raise RuntimeError(f"the schema {text!r} does not say what it returns: add '-> Tensor' or '-> ()'")
    space, colons, rest = head[1].rpartition("::")
    name, _, overload = rest.partition(".")
    arguments, kwarg_only = [], False
    for part in _split(text[opened + 1 : closed]):
        if part == "*":
            kwarg_only = True
        else:
            arguments.append(_argument(part, kwarg_only))
    results = results.strip()
    parts = _split(results[1:-1]) if results.startswith("(") and _closing(results, 0) == len(results) - 1 else [results]
    returns = []
    for part in parts:
        kind, _, label = part.rpartition(" ")
        returns.append(Return(kind, label) if kind else Return(part))
    return FunctionSchema(space + colons + name, overload, arguments, returns)
