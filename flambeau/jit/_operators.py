"""The operators of TorchScript programs by name: our public operations in the argument order of PyTorch's operators,
and what such programs do with numbers, strings and collections. Nothing that is not found here can be called by them."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable
from typing import Any

from .._core.dtypes import BY_NAME, dtype
from .._core.layouts import FORMATS, LAYOUTS
from .._library.operators import operators as registered
from .._library.schema_texts import operator_of, schemas_of
from .._tensor import Tensor
from .._tensor.methods import own_signature
from . import _aten_forms, _containers, _limits

# Numbers that programs have for dtypes, layouts and memory formats.
_DTYPE_NAMES = {
    0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "float16", 6: "float32", 7: "float64", 8: "complex32",
    9: "complex64", 10: "complex128", 11: "bool", 12: "qint8", 13: "quint8", 14: "qint32", 15: "bfloat16",
    23: "float8_e5m2", 24: "float8_e4m3fn", 25: "float8_e5m2fnuz", 26: "float8_e4m3fnuz", 27: "uint16", 28: "uint32",
    29: "uint64",
}  # fmt: skip
DTYPES: dict[int, dtype] = {code: BY_NAME[name] for code, name in _DTYPE_NAMES.items() if name in BY_NAME}
_CODES = {d: code for code, d in DTYPES.items()}
_LAYOUTS = dict(enumerate(("torch.strided", "torch.sparse_coo", "torch.sparse_csr")))
_FORMATS = dict(enumerate(("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")))


def dtype_code(d: dtype) -> int:
    """The number of a dtype."""
    return _CODES[d]


def scalar_type(value: Any) -> Any:
    """The dtype that a number stands for; dtypes and None as they are."""
    return DTYPES[value] if value.__class__ is int else value


def _layout(value: Any) -> Any:
    if value.__class__ is not int:
        return value
    return next(x for x in LAYOUTS if repr(x) == _LAYOUTS[value])


def _memory_format(value: Any) -> Any:
    if value.__class__ is not int:
        return value
    return next(x for x in FORMATS if x.name == _FORMATS[value])


_READERS = {"dtype": scalar_type, "layout": _layout, "memory_format": _memory_format}
_ABSENT = {"layout", "pin_memory", "memory_format", "device"}  # options that mean nothing when they are None or False

# Functions that programs call, though they are no operators of PyTorch's: casts, and layers of ours that stay whole.
_NO_OPERATORS = re.compile(
    r"float|double|half|bfloat16|int|long|short|char|byte|bool|cfloat|cdouble|tensor|as_tensor|new_tensor"
)
_DENIED = ("set_", "pin_memory", "from_file", "record_stream")  # reach beyond tensors: not for programs from files
# Operators of PyTorch that layers name in branches for nested, quantized or resampled tensors: an error only where they run.
_ELSEWHERE = ("_nested_", "nested_", "to_padded_tensor", "_upsample_", "_fused_", "_to_copy", "quantized_", "mkldnn_")


def _ours(name: str) -> Callable[..., Any] | None:
    """Our function for an operator of PyTorch's library, in its argument order."""
    if name.startswith("__") or name in _DENIED:
        return None
    if name in _aten_forms.FORMS:
        return _aten_forms.FORMS[name]
    return operator_of(name) if schemas_of(name) or _NO_OPERATORS.fullmatch(name) else None


@functools.cache
def find(space: str, name: str) -> Callable[..., Any]:
    """The function behind `torch.name` or `ops.space.name` of a program."""
    if space == "aten":
        found = _aten_operator(name)
    elif space == "prim":
        found = _containers.PRIM.get(name)
    else:
        found = next((op for key, op in registered.items() if key.partition(".")[0] == f"{space}::{name}"), None)
    if found is None and space == "aten" and name.startswith(_ELSEWHERE):
        return _refusing(name)
    if found is None:
        raise RuntimeError(
            f"Unknown builtin op: {space}::{name:.100}. The program uses an operator that does not exist here"
        )
    return found


def _power(a: Any, b: Any) -> Any:
    return a**b if isinstance(a, Tensor) or isinstance(b, Tensor) else _containers.OTHERS["pow"](a, b)


def _multiplied(a: Any, b: Any) -> Any:
    return a * b if a.__class__ is Tensor or b.__class__ is Tensor else _containers.OTHERS["mul"](a, b)


# Operators on two operands that Python's own do as well, for tensors and for numbers.
_PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "add": _limits.added, "sub": operator.sub, "mul": _multiplied, "div": operator.truediv, "pow": _power,
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "matmul": operator.matmul,
}  # fmt: skip


def find_pair(name: str) -> Callable[..., Any]:
    """Like `find("aten", name)`, for exactly two operands."""
    return _PAIRS.get(name) or find("aten", name)


def _refusing(name: str) -> Callable[..., Any]:
    def call(*args: Any, **named: Any) -> Any:
        raise RuntimeError(f"Unknown builtin op: aten::{name}. This operator of PyTorch does not exist here")

    return call


def builtin(name: str) -> Callable[..., Any] | None:
    """A function that programs call by its bare name: `int`, `len`, `range`, …"""
    return _containers.BUILTINS.get(name)


def _aten_operator(name: str) -> Callable[..., Any] | None:
    on_tensors = _ours(name)
    on_others = _containers.OTHERS.get(name)
    if on_tensors is not None:
        on_tensors = _converted(on_tensors)
    if on_others is None or on_tensors is None:
        return on_tensors or on_others
    return _either(on_tensors, on_others)


def _either(on_tensors: Any, on_others: Any) -> Any:
    def call(*args: Any, **named: Any) -> Any:
        for a in args:
            if isinstance(a, Tensor) or (a.__class__ is list and a and isinstance(a[0], Tensor)):
                return on_tensors(*args, **named)
        return on_others(*args, **named)

    def one(a: Any) -> Any:
        return on_tensors(a) if isinstance(a, Tensor) else call(a)

    call.one = one  # type: ignore[attr-defined]
    return call


def _converted(function: Any) -> Any:
    """The function with numbers for dtypes, layouts and formats read, wherever it takes such."""
    if getattr(function, "raw", False):
        return function
    try:
        parameters = own_signature(function).parameters.values()
    except (TypeError, ValueError):
        return function
    names = [p.name for p in parameters]
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
    special = [(i, _READERS[n]) for i, n in enumerate(names) if n in _READERS]
    varied = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if not special and not takes_all:
        return function
    at = () if varied else tuple(special)

    def call(*args: Any, **named: Any) -> Any:
        if at and len(args) > at[0][0]:
            changed = list(args)
            for i, read in at:
                if i < len(changed):
                    changed[i] = read(changed[i])
            args = tuple(changed)
        if named:
            for key in list(named):
                value = named[key]
                if key in _ABSENT and (value is None or value is False or (key == "layout" and value == 0)):
                    del named[key]
                elif key in _READERS:
                    named[key] = _READERS[key](value)
        return function(*args, **named)

    return call


def attribute_of_tensor(x: Tensor, name: str) -> Any:
    """A property of a tensor that programs may read."""
    read = _containers.PROPERTIES.get(name)
    if read is None:
        raise RuntimeError(f"Tensors have no attribute {name!r:.100} in TorchScript")
    return read(x)
