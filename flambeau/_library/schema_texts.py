"""PyTorch's schemas of operations, read when somebody asks from the texts that stand beside the declarations.

A file that declares operations ends with `SCHEMAS`: one line for each overload (of one operation, or of several alike), in PyTorch's notation. What follows from others
is not written down: aliases, in-place forms, `out=` forms with the usual names, copies of views, pointwise functions of one tensor.
What else is said there of an operation: `_ops/records/facts.py`.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .. import _ops
from .._core.layouts import memory_format
from .._kernel.native.site import Site
from .._ops.records.facts import facts_in, lines_in
from .._ops.records.pointwise_op import Pointwise
from .._ops.registry import functions, methods, ops, records
from .._tensor import Tensor
from . import aten as _aten
from .schema import Argument, FunctionSchema, Return, parse_schema

# PyTorch's operators that belong to a module have its name before theirs.
_PREFIXES = {"linalg_": "linalg.", "special_": "special.", "fft_": "fft."}
_OUTSIDE = (
    "_library.aten",
    "_library.aten_arguments",
    "_library.aten_backward",
    "_library.aten_gradients",
    "_library.aten_graphs",
    "_library.aten_layers",
    "_tensor.properties",
    "_tensor.memory",
)  # which declare operations, too


def function_of(name: str) -> Callable[..., Any] | None:
    """Our function for the name of one of PyTorch's operators."""
    found = _aten.FUNCTIONS.get(name) or functions.get(name)
    if found is None:
        for prefix, path in _PREFIXES.items():
            if name.startswith(prefix):
                found = functions.get(path + name[len(prefix) :])
    if found is None:
        found = methods.get(name) or functions.get(f"nn.functional.{name}")
    if found is None and (name in lines() or name.removesuffix("_") in lines()):  # no function of Python's
        found = getattr(ops, name, None)
    return found if callable(found) else None


def _modules() -> Iterator[Any]:
    for found in pkgutil.walk_packages(_ops.__path__, _ops.__name__ + "."):
        yield importlib.import_module(found.name)
    for name in _OUTSIDE:
        yield importlib.import_module(f"flambeau.{name}")


@functools.cache
def lines() -> dict[str, list[str]]:
    """The lines that are written down, by the names of operators."""
    found: dict[str, list[str]] = {}
    for module in _modules():
        for name, rest, _ in lines_in(module):
            if rest:
                found.setdefault(name, []).append(name + rest)
    return found


@functools.cache
def facts() -> dict[str, dict[str, str]]:
    """What is said of all operations, by name: fact -> value."""
    return {name: found for module in _modules() for name, found in facts_in(module).items()}


def is_python(name: str) -> bool:
    """Whether PyTorch has a function in Python before an operator."""
    return "python" in facts().get(name, ())


def has_own_arguments(name: str) -> bool:
    """Whether the function that programs call takes other arguments than the operator."""
    return not facts().get(name, {}).keys().isdisjoint(("python", "parsed"))


@functools.cache
def _known() -> dict[int, str]:
    """The name that an operation's schema has, by the identity of its function."""
    found = {id(op.call): name for name, op in records.items() if isinstance(op, Pointwise) and len(op.names) == 1}
    found.update((id(function_of(name)), name) for name in lines())
    return found


@functools.cache
def record_of(function: Any) -> Pointwise | None:
    return next((op for op in records.values() if isinstance(op, Pointwise) and op.call is function), None)


def takes_out(function: Any) -> bool:
    """Whether a function has an argument `out`."""
    op = record_of(function)
    if op is not None:
        return bool(op.takes_out)
    while function is not None and not hasattr(function, "takes_out"):
        if isinstance(getattr(function, "__self__", None), Site):
            function = function.__self__.slow
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            code = getattr(function, "__code__", None)
            if code is None:
                return False
            stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
            named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + stars]
            return "out" in named or "options" in named
    return function is not None


def _written(name: str, base: FunctionSchema) -> FunctionSchema:
    """The in-place form of an operator."""
    first, *rest = base.arguments
    listed = first.declared.endswith("[]")
    own = Argument(first.name, "Tensor(a!)[]" if listed else "Tensor(a!)")
    return FunctionSchema(f"aten::{name}", base.overload_name, [own, *rest], [] if listed else [Return("Tensor(a!)")])


def _with_out(base: FunctionSchema) -> FunctionSchema:
    """The form of an operator that writes its result elsewhere."""
    overload = f"{base.overload_name}_out" if base.overload_name else "out"
    arguments = [*_without_options(base), Argument("out", "Tensor(a!)", kwarg_only=True)]
    return FunctionSchema(base.name, overload, arguments, [Return("Tensor(a!)")])


def _without_options(schema: FunctionSchema) -> list[Argument]:
    """Arguments without what says of a new tensor where it lies, and without one that is written to."""
    options = {"dtype", "layout", "device", "pin_memory"} if "pin_memory" in schema.kwarg_only else {"out"}
    return [a for a in schema.arguments if a.name not in options and not a.is_write]


def _renamed(name: str, base: FunctionSchema) -> FunctionSchema:
    return FunctionSchema(f"aten::{name}", base.overload_name, base.arguments, base.returns)


def _written_down(name: str) -> list[FunctionSchema]:
    return [parse_schema(f"aten::{line}") for line in lines().get(name, ())]


def _functional(name: str) -> list[FunctionSchema]:
    """The overloads of an operator that are not derived from others of its own."""
    found = _written_down(name)
    if found:
        return found
    known = _known().get(id(function_of(name)))
    if known == name:
        return [parse_schema(f"aten::{name}(Tensor self) -> Tensor")]
    if known is not None:
        return [_renamed(name, base) for base in _functional(known)]
    if name.endswith("_copy"):
        views = [s for s in _functional(name.removesuffix("_copy")) if s.name != "aten::" + name]
        return [FunctionSchema(f"aten::{name}", s.overload_name, *_unshared(s)) for s in views]
    return []


def _unshared(base: FunctionSchema) -> tuple[list[Argument], list[Return]]:
    """Arguments and results that share no memory."""
    arguments = [a._replace(declared=re.sub(r"\([^)]*\)", "", a.declared)) for a in base.arguments]
    return arguments, [r._replace(declared=re.sub(r"\([^)]*\)", "", r.declared)) for r in base.returns]


def _is_of_tensor(schema: FunctionSchema) -> bool:
    return not schema.is_mutable and "Tensor" in schema.arguments[0].declared


@functools.cache
def schemas_of(name: str) -> dict[str, FunctionSchema]:
    """The overloads of an operator, by their names ("" for the default one).

    >>> print(*schemas_of("arccos_").values())
    aten::arccos_(Tensor(a!) self) -> Tensor(a!)
    """
    function = function_of(name)
    if function is None:
        return {}
    found, derived = _functional(name), []
    if name.endswith("_") and not name.endswith("__"):
        bases = [] if found else [s for s in _functional(name[:-1]) if _is_of_tensor(s)]
        found = found or [_written(name, base) for base in bases]
    elif name.startswith("__"):
        found = [s for s in found if _is_of_tensor(s)]
    elif takes_out(function):
        given = [_without_options(s) for s in found if s.is_mutable]
        for base in [s for s in found if not s.is_mutable]:
            if _without_options(base) not in given and [r.declared for r in base.returns] == ["Tensor"]:
                derived.append(_with_out(base))
    return {s.overload_name: s for s in [*found, *derived, *found]}  # what is written down counts


@functools.cache
def operator_of(name: str) -> Callable[..., Any] | None:
    """Our function for one of PyTorch's operators, with the arguments and results that the operator has.

    Functions of Python's name what operators number (`reduction`), give tuples for lists and None for an empty stride.
    """
    function = function_of(name)
    schema = next((s for s in schemas_of(name).values() if not s.is_mutable), None)
    if function is None or schema is None:
        return function
    names = ["input" if a.name == "self" else a.name for a in schema.positional]
    numbered = "reduction" in names and function is functions.get(f"nn.functional.{name}")
    stride = names.index("stride") if any(a.name == "stride" and a.default == [] for a in schema.positional) else None
    listed = [re.sub(r"\([^)]*\)", "", r.declared) for r in schema.returns] == ["Tensor[]"]
    if not (numbered or listed or stride is not None):
        return function

    def call(*args: Any, **named: Any) -> Any:
        if numbered:
            named.update(zip(names[2:], args[2:]))
            args = args[:2]
            if named.get("reduction").__class__ is int:
                named["reduction"] = _REDUCTIONS[named["reduction"]]
        elif stride is not None and len(args) > stride and args[stride] == []:
            args = (*args[:stride], None, *args[stride + 1 :])
        made = function(*args, **named)
        return list(made) if listed else made

    call.__name__ = name
    return call


_REDUCTIONS = ("none", "mean", "sum")


# -- what follows from schemas -------------------------------------------------------------------------------------------


def gives_several(name: str) -> bool:
    """Whether an operator gives several results, which make up a tuple. (A list of tensors is one result.)"""
    return any(len(s.returns) > 1 for s in schemas_of(name).values())


def gives_view(name: str) -> bool:
    """Whether the result of an operator may share the memory of an argument that it does not write to."""
    return any("(" in r.declared and "!" not in r.declared for s in schemas_of(name).values() for r in s.returns)


def makes_tensors(name: str) -> bool:
    """Whether an operator makes a tensor: it is told where that shall lie."""
    return any("pin_memory" in s.kwarg_only and not s.is_mutable for s in schemas_of(name).values())


def is_random(name: str) -> bool:
    """Whether an operator draws random numbers."""
    return "dropout" in name or takes_generator(name) or takes_generator(name + "_")


@functools.cache
def takes_generator(name: str) -> bool:
    """Whether an operator can be told where its random numbers come from."""
    return any(a.name == "generator" for s in schemas_of(name).values() for a in s.arguments)


def meant(name: str, args: Sequence[Any], named: dict[str, Any]) -> tuple[str, list[Any], dict[str, Any]] | None:
    """The overload that a call of a function means, with the arguments as that has them; None if there is none."""
    named = {key: value for key, value in named.items() if value is not None}
    lenient = None
    for schema in schemas_of(name).values():
        first = schema.arguments[0].name if schema.arguments else ""
        given = {first if key == "input" else key: value for key, value in named.items()}
        try:
            bound, options = schema.bind(_with_size(schema, args), given)
        except RuntimeError:
            continue
        values = [_as_declared(value, a.declared) for value, a in zip(bound, schema.positional)]
        found = schema.overload_name, values, options
        if not any(isinstance(v, Tensor) and "Tensor" not in a.declared for v, a in zip(values, schema.positional)):
            return found
        lenient = lenient or found  # a tensor for a number, if no overload takes it as such
    return lenient


def _as_declared(value: Any, declared: str) -> Any:
    if declared == "float" and isinstance(value, int):
        return float(value)
    return list(value) if isinstance(value, tuple) and declared.endswith("]") else value


def _with_size(schema: FunctionSchema, args: Sequence[Any]) -> tuple[Any, ...]:
    """Positional arguments with the sizes that functions take one by one, too, in a list."""
    place = next((i for i, a in enumerate(schema.positional) if a.declared == "SymInt[]"), len(args))
    sizes = args[place:]
    if not sizes or not all([hasattr(n, "__index__") and not isinstance(n, Tensor) for n in sizes]):
        return tuple(args)
    return (*args[:place], list(sizes))


@functools.cache
def float_places(name: str) -> tuple[int, ...]:
    """Which positional arguments of an operator are floats, whatever number is given for them."""
    kinds: dict[int, set[str]] = {}
    for schema in schemas_of(name).values():
        for i, a in enumerate(schema.positional):
            kinds.setdefault(i, set()).add(a.declared.rstrip("?"))
    return tuple(i for i, found in kinds.items() if "float" in found and "int" not in found)


def shortened(
    schema: FunctionSchema, positional: list[Any], keywords: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call without those that are as the schema has them anyway."""
    defaults = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
    keywords = {k: v for k, v in keywords.items() if k not in defaults or not _same(v, defaults[k])}
    names = [a.name for a in schema.arguments][: len(positional)]
    if not any(not a.kwarg_only and a.name in keywords for a in schema.arguments):
        while positional and names[-1] in defaults and _same(positional[-1], defaults[names[-1]]):
            positional = positional[:-1]
            names.pop()
    return positional, keywords


def _same(value: Any, default: Any) -> bool:
    if isinstance(value, memory_format) and default == 0:
        return value.name == "contiguous_format"
    if type(value) is not type(default):
        return False
    if isinstance(value, list):
        return len(value) == len(default) and all(map(_same, value, default))
    return bool(value == default)
