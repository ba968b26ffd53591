"""Rewrites a Python function as TorchScript: calls are resolved to operators, submodules and further functions."""

from __future__ import annotations

import ast
import builtins
import enum
import inspect
import math
import textwrap
import typing
from typing import Any, Protocol

from .._core.devices import device
from .._core.dtypes import dtype
from .._library.schema_texts import schemas_of
from .._ops.registry import Namespace
from .._tensor import Tensor
from ..nn.modules.container import ModuleDict, ModuleList, Sequential
from ..nn.modules.module import Module
from ._errors import Problem
from ._finals import finals_of, is_layer, may_be_constant
from ._functional_calls import (
    by_schema,
    functional_text,
    is_functional,
    is_functional_text,
    is_none,
    of_type,
    torch_name,
)
from ._lowering import _names, name_of, signature_of
from ._operators import builtin, dtype_code, find
from ._scripting import ScriptedFunction, is_left_out
from ._trace_code import literal, type_of
from ._type_texts import is_named_tuple, type_text
from .frontend import definition_of, is_scripting_test

_MARKS = ("annotate", "isinstance", "unchecked_cast")
_ANSWERS = {  # what a script says to questions about who runs it
    "is_scripting": True, "is_tracing": False, "is_compiling": False, "is_dynamo_compiling": False, "is_exporting": False,
    "is_in_onnx_export": False,
}  # fmt: skip


class Emitter(Protocol):
    """The program under construction: it writes what a function names."""

    paths: dict[int, str]  # of the classes of modules, by identity

    def function(self, function: Any) -> str:
        """The path of a function in the program."""

    def named_tuple(self, kind: Any) -> str:
        """The path of a class of named tuples in the program."""


class Rewriter(ast.NodeTransformer):
    """Rewrites one Python function so that its names are those of the program."""

    def __init__(self, emitter: Emitter, function: Any, module: Module | None):
        self.emitter, self.function, self.module = emitter, inspect.unwrap(function), module
        node = definition_of(function)
        if node is None:
            raise Problem(f"the source of {function.__name__} is not known")
        self.node = node
        self.names = {**self.function.__globals__, **inspect.getclosurevars(self.function).nonlocals}
        given = [a.arg for a in (*node.args.args, *node.args.kwonlyargs)]
        try:
            self.hints = typing.get_type_hints(self.function, include_extras=True)
        except Exception as error:
            raise Problem(f"the annotations of {function.__name__} cannot be read: {error}") from None
        self.self_name = given[0] if module is not None and given else None
        self.locals = {*given} | {
            n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        self.attributes: dict[str, tuple[str, Any]] = {}
        self.called: list[str] = []
        self.replaced: dict[str, ast.expr] = {}

    def type_text(self, kind: Any) -> str:
        return type_text(kind, self.emitter.named_tuple)

    def text(self, name: str) -> str:
        node, hints = self.node, self.hints
        parameters = []
        count = len(node.args.args) - len(node.args.defaults)
        for i, parameter in enumerate(node.args.args):
            if i == 0 and self.self_name is not None:
                parameters.append(f"self: {self.emitter.paths[id(self.module)]}")
                continue
            text = f"{parameter.arg}: {self.type_text(hints.get(parameter.arg, inspect.Parameter.empty))}"
            if i >= count and not is_functional_text(self.function):  # those are given all
                text += f"={ast.unparse(self.visit(node.args.defaults[i - count]))}"
            parameters.append(text)
        result = f" -> {self.type_text(hints['return'])}" if "return" in hints else ""
        body = self.block(node.body)
        lines = textwrap.indent("\n".join(ast.unparse(ast.fix_missing_locations(s)) for s in body), "  ")
        return f"def {name}({(',' + chr(10) + '    ').join(parameters)}){result}:\n{lines}"

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for statement in body:
            result = self.visit(statement)
            made += result if isinstance(result, list) else [] if result is None else [result]
        return made or [ast.Pass()]

    def fail(self, node: ast.AST, what: str) -> Problem:
        return Problem(f"{self.function.__name__}, line {getattr(node, 'lineno', 0)}: {what}")

    # -- names -------------------------------------------------------------------------------------------------

    def resolve(self, node: ast.expr) -> Any:
        """The Python object that a dotted name outside of the function means; `...` if it is none."""
        if isinstance(node, ast.Name):
            if node.id in self.locals:
                return ...
            if node.id in self.names:
                return self.names[node.id]
            return getattr(builtins, node.id, ...)
        if isinstance(node, ast.Attribute):
            holder = self.resolve(node.value)
            if isinstance(holder, Namespace):
                return vars(holder).get(node.attr, ...)
            if holder is not ... and (inspect.ismodule(holder) or isinstance(holder, (type, enum.Enum))):
                return getattr(holder, node.attr, ...)
        return ...

    def own(self, node: ast.expr) -> Any:
        """What `self.a.b` is; `...` for anything else."""
        if isinstance(node, ast.Name) and node.id == self.self_name:
            return self.module
        if isinstance(node, ast.Name) and node.id in self.replaced:
            return self.own(self.replaced[node.id])
        if isinstance(node, ast.Attribute):
            holder = self.own(node.value)
            return getattr(holder, node.attr, ...) if isinstance(holder, Module) else ...
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            holder = self.own(node.value)
            if isinstance(holder, (ModuleList, ModuleDict, Sequential)):
                return holder[node.slice.value]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            holder = self.own(node.args[0])
            name = node.args[1].value if isinstance(node.args[1], ast.Constant) else None
            return getattr(holder, name, ...) if isinstance(holder, Module) and isinstance(name, str) else ...
        return ...

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id in self.replaced:
            return self.visit(self.replaced[node.id])
        if node.id == self.self_name:
            return ast.Name("self", node.ctx)
        if node.id in self.locals or node.id in ("None", "True", "False"):
            return node
        return self.constant(node, self.resolve(node))

    def constant(self, node: ast.expr, value: Any) -> Any:
        if value is ...:
            raise self.fail(node, f"the name {ast.unparse(node)} is not known")
        if isinstance(value, dtype):
            return ast.Constant(dtype_code(value))
        if isinstance(value, (bool, int, float, str, type(None))):
            return ast.parse(literal(value), mode="eval").body
        if isinstance(value, (list, tuple)):
            parts = [self.constant(node, v) for v in value]
            return ast.List(parts, ast.Load()) if isinstance(value, list) else ast.Tuple(parts, ast.Load())
        if isinstance(value, device):
            return ast.parse(literal(value), mode="eval").body
        if inspect.isbuiltin(value) or isinstance(value, type):
            return node
        raise self.fail(node, f"{ast.unparse(node)} of type {type(value).__name__} cannot be part of TorchScript")

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        mine = self.own(node)
        if mine is not ...:
            holder = self.own(node.value)
            if holder is self.module and not isinstance(mine, Module) and not callable(mine):
                return self.attribute(node, mine)
            base = self.visit(node.value)
            if node.attr.isidentifier():
                return ast.Attribute(base, node.attr, node.ctx)
            return _getattr(base, node.attr)
        found = self.resolve(node)
        if found is not ...:
            return self.constant(node, found)
        return ast.Attribute(self.visit(node.value), node.attr, node.ctx)

    def attribute(self, node: ast.Attribute, value: Any) -> Any:
        own = self.module.__dict__
        name = node.attr
        if name not in own["_parameters"] and name not in own["_buffers"] and name != "training":
            plain = isinstance(value, (int, float, str, bool)) and not self._assigned(name)
            fixed = plain or name in finals_of(self.module) or (is_layer(self.module) and may_be_constant(value))
            if fixed and isinstance(node.ctx, ast.Load):
                return self.constant(node, value)
            hints = typing.get_type_hints(type(self.module)) if type(self.module).__annotations__ else {}
            kind = self.type_text(hints[name]) if name in hints else type_of(value)
            self.attributes[name] = (kind, list(value) if isinstance(value, list) else value)
        return ast.Attribute(ast.Name("self", ast.Load()), name, node.ctx)

    def _assigned(self, name: str) -> bool:
        """Whether some method of the class sets an attribute."""
        for method in vars(type(self.module)).values():
            if inspect.isfunction(method) and method.__name__ != "__init__":
                tree = definition_of(method)
                for n in ast.walk(tree) if tree is not None else ():
                    if isinstance(n, ast.Attribute) and n.attr == name and isinstance(n.ctx, ast.Store):
                        return True
        return False

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        mine = self.own(node)
        if isinstance(mine, Module):
            key = node.slice.value  # type: ignore[attr-defined]
            names = list(self.own(node.value)._modules)
            return _getattr(self.visit(node.value), key if isinstance(key, str) else names[key])
        return self.generic_visit(node)

    # -- calls -------------------------------------------------------------------------------------------------

    def visit_Call(self, node: ast.Call) -> Any:
        mine = self.own(node.func)
        marked = self.marked(node) if mine is ... else None
        if marked is not None:
            return marked
        args = [self.visit(part) for a in node.args for part in self.parts_of(a)]
        named = [ast.keyword(k.arg, self.visit(k.value)) for k in node.keywords]
        if isinstance(mine, Module):
            return ast.Call(ast.Attribute(self.visit(node.func), "forward", ast.Load()), args, named)
        if mine is not ... and inspect.ismethod(mine) and mine.__self__ is self.module:
            if is_left_out(mine.__func__):
                raise self.fail(node, f"{mine.__name__} is marked as ignored or unused: it stays Python")
            self.called.append(mine.__name__)
            return ast.Call(ast.Attribute(ast.Name("self", ast.Load()), mine.__name__, ast.Load()), args, named)
        found = self.resolve(node.func)
        if found is ...:
            if isinstance(node.func, ast.Attribute):
                return ast.Call(ast.Attribute(self.visit(node.func.value), node.func.attr, ast.Load()), args, named)
            raise self.fail(node, f"the function {ast.unparse(node.func)} is not known")
        return self.call_of(node, found, args, named)

    def parts_of(self, node: ast.expr) -> list[ast.expr]:
        """An argument; of one with a star the elements, as programs have none."""
        if not isinstance(node, ast.Starred):
            return [node]
        if isinstance(node.value, (ast.Tuple, ast.List)):
            return node.value.elts
        hint = self.hints.get(node.value.id) if isinstance(node.value, ast.Name) else None
        elements = typing.get_args(hint)
        if typing.get_origin(hint) is not tuple or ... in elements:
            raise self.fail(
                node, f"how many elements {ast.unparse(node)} has is not known: annotate it as a tuple of so many"
            )
        return [ast.Subscript(node.value, ast.Constant(i), ast.Load()) for i in range(len(elements))]

    def marked(self, node: ast.Call) -> Any:
        """A call that names a type, or asks whether it is a script; None for others."""
        found = self.resolve(node.func)
        name = getattr(found, "__name__", "")
        house, _, room = (getattr(found, "__module__", "") or "").partition(".")
        ours = house == __name__.partition(".")[0]
        if ours and name in _ANSWERS:
            return ast.Constant(_ANSWERS[name])
        if found is not isinstance and not (ours and room.startswith("jit") and name in _MARKS):
            return None
        first, second = node.args
        if name == "isinstance":
            known = self.class_test(node)
            if known is not None:
                return ast.Constant(known)
            return ast.Call(ast.Name(name, ast.Load()), [self.visit(first), _type_node(self, second)], [])
        return ast.Call(ast.Name(name, ast.Load()), [_type_node(self, first), self.visit(second)], [])

    def call_of(self, node: ast.Call, found: Any, args: list[Any], named: list[Any]) -> Any:
        name = getattr(found, "__name__", "")
        if found is getattr or found is hasattr:
            return ast.Call(ast.Name(name, ast.Load()), args, named)
        if found in (list, int, float, bool, str, tuple) or (
            builtin(name) is not None and found is getattr(builtins, name, None)
        ):
            return ast.Call(ast.Name(name, ast.Load()), args, named)
        if getattr(math, name, None) is found:
            return ast.Call(torch_name(name), args, named)
        if found is device:
            return ast.Call(torch_name("device"), args, named)
        if is_named_tuple(found):
            return self.named_tuple(node, found, args, named)
        if isinstance(found, ScriptedFunction) or (inspect.isfunction(found) and _is_foreign(found)):
            path = self.emitter.function(found)
            return ast.Call(ast.parse(path, mode="eval").body, args, named)
        if is_functional_text(found):
            return self.functional_text(node, found, args, named)
        if id(found) in _names() or callable(found):
            operator = name_of(found)
            space, _, own = operator.rpartition("::")
            if space:
                return ast.Call(ast.parse(f"ops.{space}.{own}", mode="eval").body, args, named)
            if is_functional(found):
                return self.functional(node, found, operator, args, named)
            try:
                find("aten", operator)
            except RuntimeError as error:
                raise self.fail(node, str(error)) from None
            return ast.Call(torch_name(operator), args, named)
        raise self.fail(node, f"{ast.unparse(node.func)} cannot be called in TorchScript")

    def functional(self, node: ast.Call, found: Any, operator: str, args: list[Any], named: list[Any]) -> ast.expr:
        """A call of a function of `nn.functional`: of its text, or of the operator that it is."""
        given = self.given(node, found, args, named)
        if "return_indices" in given:  # results of two types are two functions
            wanted = given.pop("return_indices")
            if not isinstance(wanted, ast.Constant):
                raise self.fail(node, f"{operator}: return_indices must be True or False itself")
            operator += "_with_indices" * (bool(wanted.value) and not operator.endswith("_with_indices"))
        text = functional_text(operator)
        if text is not None:
            known = signature_of(text).parameters
            return self.functional_text(
                node, text, [], [ast.keyword(k, v) for k, v in given.items() if k in known or not is_none(v)]
            )
        in_place = given.pop("inplace", ast.Constant(False))
        if not isinstance(in_place, ast.Constant):
            raise self.fail(node, f"{operator}: inplace must be True or False itself")
        operator += "_" * bool(in_place.value)
        first = next(iter(signature_of(found).parameters), "")
        for schema in schemas_of(operator).values():
            call = by_schema(operator, schema, first, given)
            if call is not None:
                return call
        raise self.fail(node, f"{operator} with {', '.join(given)} cannot be written as TorchScript")

    def functional_text(self, node: ast.Call, text: Any, args: list[Any], named: list[Any]) -> ast.expr:
        """A call of a function that the program takes into itself, with all of its arguments in order."""
        given = self.given(node, text, args, named)
        values = []
        for name, parameter in signature_of(text).parameters.items():
            value = given.get(name)
            if value is None and parameter.default is parameter.empty:
                raise self.fail(node, f"{text.__name__} is missing its argument {name}")
            values.append(self.constant(node, parameter.default) if value is None else of_type(value, parameter))
        return ast.Call(ast.parse(self.emitter.function(text), mode="eval").body, values, [])

    def given(self, node: ast.Call, function: Any, args: list[Any], named: list[Any]) -> dict[str, Any]:
        """The arguments of a call by the names of parameters."""
        try:
            return signature_of(function).bind(*args, **{k.arg: k.value for k in named}).arguments
        except TypeError as error:
            raise self.fail(node, f"{getattr(function, '__name__', '')}: {error}") from None

    def named_tuple(self, node: ast.Call, kind: Any, args: list[Any], named: list[Any]) -> ast.expr:
        given = {**dict(zip(kind._fields, args)), **{k.arg: k.value for k in named}}
        for name, value in kind._field_defaults.items():
            given.setdefault(name, self.constant(node, value))
        if set(given) != set(kind._fields):
            raise self.fail(node, f"{ast.unparse(node)} does not name all of {', '.join(kind._fields)}")
        path = ast.parse(self.emitter.named_tuple(kind), mode="eval").body
        return ast.Call(path, [given[name] for name in kind._fields], [])

    # -- statements --------------------------------------------------------------------------------------------

    def visit_If(self, node: ast.If) -> Any:
        known = is_scripting_test(node.test)
        if known is None:
            known = self.class_test(node.test)
        if known is not None:
            return self.block(node.body) if known else self.block(node.orelse) if node.orelse else []
        return ast.If(self.visit(node.test), self.block(node.body), self.block(node.orelse) if node.orelse else [])

    def class_test(self, node: ast.expr) -> bool | None:
        """Whether a condition about the class of a parameter that is a tensor holds; None if it is another one."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.class_test(node.operand)
            return None if inner is None else not inner
        if not (isinstance(node, ast.Call) and self.resolve(node.func) is isinstance):
            return None
        value, wanted = node.args
        if not (isinstance(value, ast.Name) and self.hints.get(value.id) is Tensor):
            return None
        kinds = [self.resolve(n) for n in (wanted.elts if isinstance(wanted, ast.Tuple) else [wanted])]
        return any(issubclass(Tensor, k) for k in kinds) if all(isinstance(k, type) for k in kinds) else None

    def visit_Raise(self, node: ast.Raise) -> Any:
        """The operator that raises, and an assertion: by it PyTorch knows that a branch goes no further."""
        error = node.exc
        args = [self.visit(a) for a in error.args] if isinstance(error, ast.Call) else []
        kind = ... if error is None else self.resolve(error.func if isinstance(error, ast.Call) else error)
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise self.fail(node, "exceptions must derive from BaseException")
        text = ast.Attribute(ast.Constant(" ".join(["{}"] * len(args))), "format", ast.Load())
        message = args[0] if len(args) == 1 else ast.Call(text, args, [])
        raised = ast.parse("ops.prim.RaiseException", mode="eval").body
        name = ast.Constant(f"{kind.__module__}.{kind.__qualname__}")
        return [ast.Expr(ast.Call(raised, [message, name], [])), ast.Assert(ast.Constant(False), None)]

    def visit_For(self, node: ast.For) -> Any:
        modules = self._modules_in(node.iter)
        if modules is None:
            return ast.For(self.visit(node.target), self.visit(node.iter), self.block(node.body), [])
        made: list[ast.stmt] = []
        for bindings in modules:
            before = dict(self.replaced)
            targets = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
            if len(targets) != len(bindings) or not all(isinstance(t, ast.Name) for t in targets):
                raise self.fail(node, "the loop over modules has too many targets")
            self.replaced.update({t.id: b for t, b in zip(targets, bindings)})  # type: ignore[attr-defined]
            if any(isinstance(n, (ast.Break, ast.Continue)) for s in node.body for n in ast.walk(s)):
                raise self.fail(node, "break and continue in loops over modules cannot be written as TorchScript")
            made += self.block([_copied(s) for s in node.body])
            self.replaced = before
        return made

    def _modules_in(self, values: ast.expr) -> Any:
        """What a loop over a container of modules binds in each round; None for other loops."""
        counted = isinstance(values, ast.Call) and isinstance(values.func, ast.Name) and values.func.id == "enumerate"
        target = values.args[0] if counted else values  # type: ignore[attr-defined]
        items = (
            isinstance(target, ast.Call)
            and isinstance(target.func, ast.Attribute)
            and target.func.attr in ("items", "values")
        )
        holder_node = target.func.value if items else target
        holder = self.own(holder_node)
        if not isinstance(holder, (ModuleList, ModuleDict, Sequential)):
            return None
        rounds = []
        for i, name in enumerate(holder._modules):
            part: list[ast.expr] = [_getattr(holder_node, name)]
            if items and target.func.attr == "items":
                part = [ast.Constant(name), *part]
            rounds.append([ast.Constant(i), *part] if counted else part)
        return rounds

    def visit_Expr(self, node: ast.Expr) -> Any:
        if isinstance(node.value, ast.Constant):
            return None  # a docstring
        return ast.Expr(self.visit(node.value))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        value = None if node.value is None else self.visit(node.value)
        if value is None:
            return None
        kind = _type_node(self, node.annotation)
        return ast.Assign(
            [self.visit(node.target)], ast.Call(ast.Name("annotate", ast.Load()), [kind, value], []), lineno=0
        )

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Any:
        text, values = "", []
        for part in node.values:
            if isinstance(part, ast.Constant):
                text += part.value
            else:
                text += "{}"
                values.append(self.visit(part.value))  # type: ignore[attr-defined]
        return ast.Call(ast.Attribute(ast.Constant(text), "format", ast.Load()), values, [])


def _is_foreign(function: Any) -> bool:
    """Whether a function is one of the program's, not of this package."""
    package, part = [*(function.__module__ or "").split("."), ""][:2]
    return package not in (__name__.partition(".")[0], "torch") or part == "vision"


def _copied(node: ast.stmt) -> ast.stmt:
    return ast.parse(ast.unparse(node)).body[0]


def _getattr(holder: ast.expr, name: str) -> ast.expr:
    return ast.Call(ast.Name("getattr", ast.Load()), [holder, ast.Constant(name)], [])


def _type_node(rewriter: Rewriter, node: ast.expr) -> ast.expr:
    """A type in the source as one of the language."""
    try:
        kind = eval(compile(ast.Expression(node), "<annotation>", "eval"), {**rewriter.names})
    except Exception as error:
        raise rewriter.fail(node, f"the type {ast.unparse(node)} cannot be read: {error}") from None
    return ast.parse(rewriter.type_text(kind), mode="eval").body
