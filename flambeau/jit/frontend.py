"""Errors about Python source that is not TorchScript, and the check for it."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from typing import Any

from ._errors import Problem

__all__ = ["FrontendError", "NotSupportedError", "UnsupportedNodeError", "check", "definition_of"]


class FrontendError(Exception):
    """Source that cannot be compiled."""


class NotSupportedError(FrontendError):
    """Source that uses what the language does not have."""


class UnsupportedNodeError(NotSupportedError):
    """Source with a construct that the language does not have."""


_UNSUPPORTED = {
    ast.Try: "try blocks", ast.Lambda: "lambda expressions", ast.Yield: "yield", ast.YieldFrom: "yield from",
    ast.Await: "await", ast.AsyncFunctionDef: "async functions", ast.AsyncFor: "async for", ast.AsyncWith: "async with",
    ast.Global: "global variables", ast.Nonlocal: "nonlocal variables", ast.Import: "import statements",
    ast.ImportFrom: "import statements", ast.ClassDef: "class definitions", ast.Set: "sets", ast.SetComp: "sets",
    ast.NamedExpr: "assignment expressions", ast.FunctionDef: "nested function definitions", ast.Starred: "starred values",
}  # fmt: skip


def definition_of(function: Any) -> ast.FunctionDef | None:
    """The syntax tree of a Python function; None if its source is not known or not a plain definition."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    except (OSError, TypeError, SyntaxError, IndentationError):
        return None
    return tree.body[0] if tree.body and isinstance(tree.body[0], ast.FunctionDef) else None


def is_scripting_test(node: ast.expr) -> bool | None:
    """Whether a condition holds in compiled code because of `is_scripting`; None if it is another one."""
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("is_scripting"):
        return True
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = is_scripting_test(node.operand)
        return None if inner is None else not inner
    if isinstance(node, ast.BoolOp):
        decides = isinstance(node.op, ast.Or)  # the answer of one part that is that of the whole
        known = [is_scripting_test(part) for part in node.values]
        return decides if decides in known else None if None in known else not decides
    return None


def _walk(node: ast.AST) -> Any:
    """All nodes that compiled code would reach, but for the stars before arguments of calls."""
    for child in ast.iter_child_nodes(node):
        if isinstance(node, ast.Call) and isinstance(child, ast.Starred):
            child = child.value
        if isinstance(child, ast.If):
            known = is_scripting_test(child.test)
            for part in () if known is False else child.body:
                yield part
                yield from _walk(part)
            for part in () if known is True else child.orelse:
                yield part
                yield from _walk(part)
            yield from _walk(child.test)
        else:
            yield child
            yield from _walk(child)


def check(function: Any) -> None:
    """Raises if a Python function uses what TorchScript does not have."""
    node = definition_of(function)
    if node is None:
        return
    if node.args.vararg is not None or node.args.kwarg is not None:
        raise NotSupportedError(
            f"{node.name}: Compiled functions can't take variable number of arguments or use keyword-only arguments with defaults"
        )
    for inner in _walk(node):
        what = _UNSUPPORTED.get(type(inner))
        if what is not None:
            raise UnsupportedNodeError(
                f"{node.name}, line {getattr(inner, 'lineno', 0)}: {what} aren't supported by TorchScript"
            )
    _check_names(inspect.unwrap(function), node)


def _check_names(function: Any, node: ast.FunctionDef) -> None:
    """Raises if a function uses a name that means nothing, or `super`."""
    code = function.__code__
    known = {*code.co_varnames, *code.co_cellvars, *code.co_freevars, *function.__globals__, *vars(builtins)}
    known.discard("super")
    known |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for inner in _walk(ast.Module(node.body, [])):
        if isinstance(inner, ast.Name) and inner.id not in known:
            what = "super() is no part of TorchScript" if inner.id == "super" else f"undefined value {inner.id}"
            raise Problem(f"{node.name}, line {inner.lineno}: {what}")
