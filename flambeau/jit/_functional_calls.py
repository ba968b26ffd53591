"""Calls of functions of `nn.functional` in scripts: some are operators, of others a text becomes part of the program."""

from __future__ import annotations

import ast
import inspect
from typing import Any

from .._ops.registry import functions
from . import _functional, _functional_losses
from ._lowering import REDUCTIONS, _names


def is_functional(function: Any) -> bool:
    """Whether a function is one of `nn.functional`."""
    path = _names().get(id(function), "")
    if path.startswith("nn.functional") or functions.get(f"nn.functional.{path}") is function:
        return True
    return (getattr(function, "__module__", "") or "").endswith("functional")


def is_functional_text(function: Any) -> bool:
    """Whether a function is one that programs take into themselves."""
    return getattr(function, "__module__", None) in (_functional.__name__, _functional_losses.__name__)


def functional_text(name: str) -> Any:
    """The function of `nn.functional` with this name in TorchScript; None if it is an operator."""
    found = vars(_functional).get(name) or vars(_functional_losses).get(name)
    return found if is_functional_text(found) else None


def is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def of_type(value: ast.expr, parameter: inspect.Parameter) -> ast.expr:
    """An argument as its parameter has it: numbers that are written as integers may be meant as floats."""
    whole = isinstance(value, ast.Constant) and value.value.__class__ is int
    floating = str(parameter.annotation).startswith(("float", "Factors"))
    return ast.Constant(float(value.value)) if whole and floating else value  # type: ignore[attr-defined]


def by_schema(operator: str, schema: Any, first: str, given: dict[str, Any]) -> ast.expr | None:
    """A call of an operator with arguments that have the names of its schema; None if it does not take them."""
    waiting = {("self" if k == first and schema.arguments[0].name == "self" else k): v for k, v in given.items()}
    args: list[ast.expr] = []
    named: list[ast.keyword] = []
    for a in schema.arguments:
        value = waiting.pop(a.name, None)
        if value is None or (is_none(value) and not a.declared.endswith("?")):
            if not a.has_default_value():
                return None
            continue
        if a.name == "reduction" and isinstance(value, ast.Constant) and value.value in REDUCTIONS:
            value = ast.Constant(REDUCTIONS.index(value.value))
        if a.kwarg_only or len(args) < schema.arguments.index(a):
            named.append(ast.keyword(a.name, value))
        else:
            args.append(value)
    left = [v for v in waiting.values() if not is_none(v)]
    return None if left else ast.Call(torch_name(operator), args, named)


def torch_name(name: str) -> ast.expr:
    return ast.Attribute(ast.Name("torch", ast.Load()), name, ast.Load())
