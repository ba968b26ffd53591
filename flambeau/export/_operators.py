"""Which overload of an operator a recorded call is, and its arguments as that overload's schema declares them."""

from __future__ import annotations

import functools
import itertools
import re
from typing import Any

from .._backend.placement import as_device
from .._core.devices import device
from .._core.dtypes import dtype
from .._core.layouts import layout, memory_format
from .._library.namespaces import OpOverload, ops
from .._library.schema import FunctionSchema
from .._library.schema_texts import schemas_of, shortened
from .._tensor import Tensor
from ..jit._operators import _layout, _memory_format, scalar_type
from ..jit._tracer import Value

# PyTorch's functions take numbers for these as tensors without dimensions.
_OF_TENSORS = frozenset(("add", "sub", "mul", "div", "add_", "sub_", "mul_", "div_"))
_ABSENT = object()


def overload_of(op: str, args: list[Any], named: dict[str, Any]) -> tuple[OpOverload, list[Any], dict[str, Any]]:
    """The overload that a recorded call is, with arguments by position and by name as in its schema; values stay values."""
    space, _, name = op.rpartition("::")
    packet = getattr(getattr(ops, space or "aten"), name)
    schemas = (
        schemas_of(name)
        if not space or space == "aten"
        else {o: getattr(packet, o)._schema for o in packet.overloads()}
    )
    # arguments that have only names in Python have places in TorchScript, whose calls are recorded, too
    for anywhere, loose in itertools.product((False, True), repeat=2):
        for overload, schema in schemas.items():
            if any(a.kwarg_only and a.is_write for a in schema.arguments):
                continue
            if name in _OF_TENSORS and "Scalar" in overload:
                continue
            if not anywhere and len(args) > sum([not a.kwarg_only for a in schema.arguments]):
                continue
            found = _bound(schema, args, named, loose or name in _OF_TENSORS)
            if found is not None:
                return getattr(packet, overload or "default"), *found
    shown = ", ".join(_kind(a) for a in [*args, *named.values()])
    raise NotImplementedError(f"torch.export: no overload of aten::{name} takes ({shown}); write the model without it")


def _kind(a: Any) -> str:
    if isinstance(a, Value):
        return a.kind
    return f"[{', '.join(map(_kind, a))}]" if isinstance(a, (list, tuple)) else repr(a)


def _bound(schema: FunctionSchema, args: list[Any], named: dict[str, Any], loose: bool) -> Any:
    """The arguments converted to what a schema declares; None if they do not fit."""
    if len(args) > len(schema.arguments):
        return None
    given = {a.name: value for a, value in zip(schema.arguments, args)}
    if given.keys() & named.keys() or not named.keys() <= {a.name for a in schema.arguments}:
        return None
    given.update(named)
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    gap = False
    for a in schema.arguments:
        value = given.get(a.name, _ABSENT)
        if value is _ABSENT:
            if not a.has_default_value():
                return None
            gap = True
            continue
        value = _reader(a.declared)(value, loose)
        if value is _ABSENT:
            return None
        if a.kwarg_only or gap:
            keywords[a.name] = value
        else:
            positional.append(value)
    return shortened(schema, positional, keywords)


@functools.cache
def _reader(declared: str) -> Any:
    """What makes an argument of a declared type out of a recorded one; gives _ABSENT for what does not fit."""
    kind = re.sub(r"\([^)]*\)", "", declared)
    if kind.endswith("?"):
        inner = _reader(kind[:-1])
        return lambda v, loose: None if v is None else inner(v, loose)
    listed = re.match(r"(.*)\[(\d*)\]$", kind)
    if listed:
        item, count = _reader(listed[1]), listed[2]

        def read_list(v: Any, loose: bool) -> Any:
            if not isinstance(v, (list, tuple)):
                if not count:
                    return _ABSENT
                v = [v] * (int(count) if count != "1" else 1)
            made = [item(x, loose) for x in v]
            return _ABSENT if any(x is _ABSENT for x in made) else made

        return read_list
    return _READERS.get(kind, lambda v, loose: v)


def _tensor(v: Any, loose: bool) -> Any:
    if isinstance(v, Value):
        return v if v.kind == "Tensor" or loose else _ABSENT
    return v if isinstance(v, Tensor) or (loose and isinstance(v, (int, float, complex))) else _ABSENT


def _whole(v: Any, loose: bool) -> Any:
    if isinstance(v, Value):
        return v if v.kind == "int" else _ABSENT
    return v if isinstance(v, int) and (loose or not isinstance(v, bool)) else _ABSENT


def _float(v: Any, loose: bool) -> Any:
    if isinstance(v, Value):
        return v if v.kind in ("int", "float") else _ABSENT
    return float(v) if isinstance(v, (int, float)) and not isinstance(v, bool) else _ABSENT


def _scalar(v: Any, loose: bool) -> Any:
    if isinstance(v, Value):
        return v if v.kind in ("int", "float") else _ABSENT
    return v if isinstance(v, (int, float, complex)) else _ABSENT


def _read_as(convert: Any, *kinds: Any) -> Any:
    return lambda v, loose: convert(v) if isinstance(v, kinds) and not isinstance(v, bool) else _ABSENT


def _plain(*kinds: Any) -> Any:
    return lambda v, loose: v if isinstance(v, kinds) else _ABSENT


_READERS: dict[str, Any] = {
    "Tensor": _tensor, "int": _whole, "SymInt": _whole, "float": _float, "SymFloat": _float, "Scalar": _scalar,
    "bool": _plain(bool), "str": _plain(str), "ScalarType": _read_as(scalar_type, int, dtype),
    "Device": _read_as(as_device, device, str), "Layout": _read_as(_layout, int, layout),
    "MemoryFormat": _read_as(_memory_format, int, memory_format),
}  # fmt: skip
