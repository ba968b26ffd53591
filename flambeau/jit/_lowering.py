"""How calls of public functions become operators of PyTorch's library in a trace: names, and arguments in their order."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

from .._core.dtypes import dtype
from .._core.layouts import layout, memory_format
from .._core.sizes import Size
from .._interception.torch_dispatch import aten_call
from .._library.namespaces import OpOverload, OpOverloadPacket
from .._library.schema_texts import schemas_of
from .._ops.records.facts import fact
from .._ops.records.pointwise_op import Pointwise
from .._ops.registry import functions, methods, records
from .._tensor import Tensor
from .._tensor.methods import own_signature
from ._operators import dtype_code, find

REDUCTIONS = ("none", "mean", "sum")
_IGNORED = ("out", "generator", "inplace", "_stacklevel", "size_average", "reduce", "axis", "named")
_ROOTS = {"linalg.": "linalg_", "special.": "special_", "fft.": "fft_", "nn.functional.": "", "Tensor.": ""}


@functools.cache
def _names() -> dict[int, str]:
    """Public names by the identity of functions; those at the top win."""
    found: dict[int, str] = {}
    for table in (methods, functions):
        for path, function in table.items():
            known = found.get(id(function))
            if known is None or ("." in known and "." not in path):
                found[id(function)] = path
    return found


def name_of(function: Any) -> str:
    """The name of the operator that a function is."""
    if isinstance(function, (OpOverload, OpOverloadPacket)):
        space, _, name = getattr(function, "_qualified_op_name", "").partition("::")
        space, name = (space, name) if name else (function.namespace, function._opname)
        return name if space == "aten" else f"{space}::{name}"
    if hasattr(function, "plain"):  # a watched attribute of tensors
        return function.__name__
    path = _names().get(id(function)) or (getattr(function, "__name__", "") or function.name).removeprefix(
        "functional_"
    )
    for root, prefix in _ROOTS.items():
        if path.startswith(root):
            return prefix + path[len(root) :]
    return path


def run(tracer: Any, function: Any, args: Any, named: dict[str, Any]) -> Any:
    """Runs a call inside of a trace and records it."""
    function_name = getattr(function, "__name__", "")
    name = name_of(function)
    special = SPECIAL.get("F." + name) if function_name.startswith("functional_") or _is_functional(function) else None
    special = special or SPECIAL.get(name)
    if special is not None:
        if "input" in named:  # the first argument of whatever has one of this name
            args, named = (named["input"], *args), {k: v for k, v in named.items() if k != "input"}
        return special(Steps(tracer, function), *args, **named)
    plain = getattr(function, "plain", function)
    inside = getattr(plain, "__wrapped__", None)  # the function itself, behind what asks
    if inside is not None and (fact(name, "composite") is not None or name.startswith(("masked.", "signal."))):
        with tracer.again():
            return inside(*args, **named)
    if not _writes(function) and named.get("out") is None:
        parts = tracer.in_parts(name, plain, args, named)
        if parts is not None:
            return parts
    out = tracer.compute(plain, args, named)
    if not _has_tensors(out) and not _writes(function):
        return out
    base = name.removesuffix("_")
    record = records.get(base)
    if isinstance(record, Pointwise) and not _takes(base, len(args)):  # what PyTorch calls otherwise, or gives by name
        operator, args, named = aten_call(record, args)
        name = getattr(operator, "_opname", base) + "_" * (name != base)  # as in place
        arguments, options = [plain_argument(a) for a in args], {k: plain_argument(v) for k, v in named.items()}
    else:
        arguments, options = bound(plain, args, named)
        arguments, options = _fitted(name, plain, arguments, options)
    if options.get("reduction") in REDUCTIONS:
        options["reduction"] = REDUCTIONS.index(options["reduction"])
    if named.get("out") is not None:
        tracer.record(name, arguments, options, out)
        tracer.record("copy_", [named["out"], out], {}, named["out"])
        return out
    return tracer.record(name, arguments, options, out)


def _fitted(name: str, function: Any, args: list[Any], named: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments as some overload has them: what it takes by name alone is given so."""
    schemas = [s for s in schemas_of(name).values() if not s.is_mutable]
    if any([_has(s, {*named}, len(args)) for s in schemas]):
        return args, named
    parameters = list(signature_of(function).parameters)[: len(args)]
    for schema in schemas:
        first = schema.arguments[0].name
        given = {**dict(zip([first, *parameters[1:]], args)), **named}
        if len(given) == len(args) + len(named) and _has(schema, {*given}, 0):
            positional = [given.pop(first)]
            for a in schema.positional[1:]:
                if a.name not in given:
                    break
                positional.append(given.pop(a.name))
            return positional, given
    return args, named


def _has(schema: Any, names: set[str], count: int) -> bool:
    """Whether an overload takes so many arguments by position and others by these names, and needs no more."""
    rest = schema.arguments[count:]
    needed = {a.name for a in rest if not a.has_default_value()}
    return count <= len(schema.positional) and needed <= names <= {a.name for a in rest}


def _takes(name: str, count: int) -> bool:
    """Whether an operator takes so many arguments by position."""
    return any(sum([not a.kwarg_only for a in schema.arguments]) >= count for schema in schemas_of(name).values())


def _is_functional(function: Any) -> bool:
    path = _names().get(id(function), "")
    return path.startswith("nn.functional.") or (getattr(function, "__module__", None) or "").endswith("nn.functional")


def _writes(function: Any) -> bool:
    """Whether a function is an operator that writes to its arguments and gives nothing."""
    schema = getattr(function, "_schema", None) if isinstance(function, OpOverload) else None
    return schema is not None and schema.is_mutable and not schema.returns


def _has_tensors(out: Any) -> bool:
    if isinstance(out, (tuple, list)):
        return any(isinstance(t, Tensor) for t in out)
    return isinstance(out, Tensor)


@functools.cache
def signature_of(function: Any) -> inspect.Signature:
    return own_signature(function)


def bound(function: Any, args: Any, named: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call in order, and those that can only be given by name."""
    try:
        signature = signature_of(function)
        given = signature.bind(*args, **named).arguments
    except (TypeError, ValueError):
        return [plain_argument(a) for a in args], {k: plain_argument(v) for k, v in named.items() if v is not None}
    positional: list[Any] = []
    by_name: dict[str, Any] = {}
    gap = False
    for parameter in signature.parameters.values():
        name = parameter.name
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += [plain_argument(a) for a in given.get(name, ())]
        elif parameter.kind is parameter.VAR_KEYWORD:
            by_name.update((k, plain_argument(v)) for k, v in given.get(name, {}).items() if v is not None)
        elif name not in given or (name in _IGNORED and not isinstance(given[name], str)):  # `reduce` may be a name
            gap = True
        elif parameter.kind is parameter.KEYWORD_ONLY:
            if given[name] is not None:
                by_name[name] = plain_argument(given[name])
        elif gap:
            by_name[name] = plain_argument(given[name])
        else:
            positional.append(plain_argument(given[name]))
    return positional, by_name


def plain_argument(value: Any) -> Any:
    """An argument as programs write it: numbers for dtypes and formats, lists for tuples."""
    if isinstance(value, dtype):
        return dtype_code(value)
    if isinstance(value, layout):
        return 0
    if isinstance(value, memory_format):
        return {"contiguous_format": 0, "preserve_format": 1, "channels_last": 2, "channels_last_3d": 3}[value.name]
    if isinstance(value, (Size, tuple)):
        return [plain_argument(v) for v in value]
    return value


class Steps:
    """What special cases use: runs operators and records them."""

    def __init__(self, tracer: Any, function: Any):
        self.tracer, self.function = tracer, getattr(function, "plain", function)

    def do(self, op: str, *args: Any, **named: Any) -> Any:
        """Runs an operator of PyTorch's library by name and records it."""
        out = self.tracer.compute(find("aten", op), args, named)
        return self.tracer.record(op, list(args), named, out)

    def note(self, op: str, args: list[Any], out: Any, **named: Any) -> Any:
        """Records an operator whose result is known."""
        return self.tracer.record(op, args, named, out)


SPECIAL: dict[str, Callable[..., Any]] = {}


def special(*names: str) -> Callable[[Any], Any]:
    def decorate(function: Any) -> Any:
        SPECIAL.update(dict.fromkeys(names, function))
        return function

    return decorate


def sizes(args: Any, named: dict[str, Any], *keys: str) -> list[Any]:
    """The sizes in f(2, 3), f((2, 3)) and f(size=(2, 3))."""
    for key in keys:
        if key in named:
            args = (named.pop(key),)
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        args = args[0]
    return list(args)


def listed(value: Any, count: int) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value] * count


def by_schema(op: str, **other: str) -> Callable[..., Any]:
    """The lowering of a function with the arguments of an operator, in the order of the operator's schema. `other` says what the
    function calls some of them. What it does not have is left to the operator, or on."""

    def lower(s: Steps, *args: Any, **named: Any) -> Any:
        given = arguments_of(s.function, args, named)
        values = []
        for a in next(iter(schemas_of(op).values())).positional:
            name = other.get(a.name, "input" if a.name == "self" else a.name)
            if name in given:
                values.append(_as_declared(a.declared, name, given))
            elif a.has_default_value():
                break
            else:
                values.append(True)
        return s.do(op, *values)

    return lower


def arguments_of(function: Any, args: Any, named: dict[str, Any]) -> dict[str, Any]:
    """All arguments of a call by name, defaults too."""
    given = signature_of(function).bind(*args, **named)
    given.apply_defaults()
    return given.arguments


def _as_declared(declared: str, name: str, given: dict[str, Any]) -> Any:
    """An argument as a schema has it: a number for each dimension; windows that say no stride go by their size."""
    value = given[name]
    if name == "stride" and (value is None or value == []):
        value = given["kernel_size"]
    count = re.search(r"\[(\d+)\]$", declared)
    if count is None or isinstance(value, str):
        return list(value) if isinstance(value, tuple) else value
    return listed(value, int(count[1]))
