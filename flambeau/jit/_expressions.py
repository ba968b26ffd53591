"""Expressions of TorchScript source as closures over a frame of slots; names lead only to operators, to other definitions of the
same program and to the parts of values that `_values` lists."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from . import _limits
from ._closures import Closure, apply, constant, dotted, dtype_named
from ._errors import Problem
from ._operators import builtin, find, find_pair
from ._values import ScriptObject, call_method, is_of, iterated, read_attribute, subscript

OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "remainder",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "__and__", ast.BitOr: "__or__", ast.BitXor: "__xor__",
    ast.LShift: "__lshift__", ast.RShift: "__rshift__", ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le",
    ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip
_NUMBERS = {"inf": math.inf, "nan": math.nan, "infj": complex(0, math.inf), "nanj": complex(0, math.nan)}
_MOST_INLINED = 20_000  # statements of other methods that may become part of one


class Names:
    """The names of one function: variables become places in the frame; some hold modules that are known before it runs."""

    def __init__(self, program: Any, path: str, parameters: list[str]):
        self.program, self.path = program, path
        self.slots = {name: i for i, name in enumerate(parameters)}
        self.known: dict[str, Any] = {}  # variables that hold modules which are known now
        self.once: set[str] = set()  # variables that are set in one place
        self.prefix = ""  # of variables of a method that becomes part of another
        self.room = [_MOST_INLINED]

    def know(self, name: str, module: Any, definition: ast.FunctionDef) -> None:
        """Says which module a parameter is."""
        stores: dict[str, int] = {}
        for node in ast.walk(definition):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                stores[node.id] = stores.get(node.id, 0) + 1
        self.once = {n for n, count in stores.items() if count == 1}
        if name not in stores:
            self.known[name] = module

    def module_of(self, node: ast.expr) -> Any:
        """The module that an expression is, if that is known now."""
        if isinstance(node, ast.Name):
            return self.known.get(node.id)
        name = None
        if isinstance(node, ast.Attribute):
            holder, name = self.module_of(node.value), node.attr
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr" and "getattr" not in self.slots:
            holder = self.module_of(node.args[0]) if len(node.args) == 2 else None
            name = node.args[1].value if holder is not None and isinstance(node.args[1], ast.Constant) else None
        return holder.__dict__["_modules"].get(name) if name is not None and holder is not None else None

    def part_of(self, module: Any, name: str) -> Closure | None:
        """Reads an attribute of a module that is known."""
        own = module.__dict__
        for table in ("_parameters", "_buffers", "_attributes"):
            if name in own[table]:
                found = own[table]
                return lambda f: found[name]
        return (lambda f: own["training"]) if name == "training" else None

    def fail(self, node: ast.AST, what: str = "") -> Problem:
        line = getattr(node, "lineno", 0)
        return Problem(f"{self.path}, line {line}: {what or type(node).__name__ + ' is not part of TorchScript'}")

    def is_variable(self, name: str) -> bool:
        return self.prefix + name in self.slots or name in self.known

    def slot(self, name: str) -> int:
        if name.startswith("__"):
            raise Problem(f"{self.path}: the name {name!r:.100} may not be used")
        return self.slots.setdefault(self.prefix + name, len(self.slots))


class Expressions(Names):
    """Compiles expressions. What compiles statements adds `store` and `inlined`."""

    store: Callable[..., Any]
    inlined: Callable[..., Any]

    def expression(self, node: ast.expr) -> Closure:
        visit = getattr(self, "see_" + type(node).__name__, None)
        if visit is None:
            raise self.fail(node)
        return visit(node)

    def see_Constant(self, node: ast.Constant) -> Closure:
        value = node.value
        if isinstance(value, bytes):
            raise self.fail(node)
        return constant(value)

    def see_Name(self, node: ast.Name) -> Closure:
        if node.id in self.known:
            module = self.known[node.id]
            return lambda f: module
        at = self.slots.get(self.prefix + node.id)
        if at is not None:
            return itemgetter(at)
        if node.id in _NUMBERS:
            number = _NUMBERS[node.id]
            return lambda f: number
        found = builtin(node.id)
        if found is None:
            raise self.fail(node, f"the name {node.id!r:.100} is not defined")
        return lambda f: found

    def see_Tuple(self, node: ast.Tuple) -> Closure:
        parts = [self.expression(e) for e in node.elts]
        return lambda f: tuple([part(f) for part in parts])

    def see_List(self, node: ast.List) -> Closure:
        parts = [self.expression(e) for e in node.elts]
        if all(isinstance(e, ast.Constant) for e in node.elts):
            fixed = [e.value for e in node.elts]  # type: ignore[attr-defined]
            return lambda f: fixed[:]
        return lambda f: [part(f) for part in parts]

    def see_Dict(self, node: ast.Dict) -> Closure:
        if any(k is None for k in node.keys):
            raise self.fail(node)
        parts = [(self.expression(k), self.expression(v)) for k, v in zip(node.keys, node.values)]  # type: ignore[arg-type]
        return lambda f: {k(f): v(f) for k, v in parts}

    def see_JoinedStr(self, node: ast.JoinedStr) -> Closure:
        parts: list[Closure] = []
        for value in node.values:
            if isinstance(value, ast.FormattedValue):
                if value.format_spec is not None:
                    raise self.fail(node, "formats of f-strings are not part of TorchScript")
                parts.append(self.expression(value.value))
            else:
                parts.append(self.expression(value))
        return lambda f: _limits.joined("", [_limits.as_text(part(f)) for part in parts])

    def see_IfExp(self, node: ast.IfExp) -> Closure:
        test, then, other = self.expression(node.test), self.expression(node.body), self.expression(node.orelse)
        return lambda f: then(f) if test(f) else other(f)

    def see_BoolOp(self, node: ast.BoolOp) -> Closure:
        parts = [self.expression(v) for v in node.values]
        if isinstance(node.op, ast.And):
            return lambda f: all(bool(part(f)) for part in parts)
        return lambda f: any(bool(part(f)) for part in parts)

    def see_UnaryOp(self, node: ast.UnaryOp) -> Closure:
        value = self.expression(node.operand)
        if isinstance(node.op, ast.Not):
            return lambda f: not value(f)
        if isinstance(node.op, ast.USub):
            if isinstance(node.operand, ast.Constant) and isinstance(node.operand.value, (int, float, complex)):
                return constant(-node.operand.value)
            negative = find("aten", "neg")
            return lambda f: negative(value(f))
        if isinstance(node.op, ast.Invert):
            inverted = find("aten", "bitwise_not")
            return lambda f: inverted(value(f))
        return value

    def see_BinOp(self, node: ast.BinOp) -> Closure:
        a, b = self.expression(node.left), self.expression(node.right)
        if isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
            return lambda f: _limits.percent(a(f), b(f))
        return apply(find_pair(OPERATORS[type(node.op)]), [a, b], [])

    def see_Compare(self, node: ast.Compare) -> Closure:
        parts = [self.expression(v) for v in (node.left, *node.comparators)]
        tests = [self._comparison(op) for op in node.ops]
        if len(tests) == 1:
            (a, b), test = parts, tests[0]
            return lambda f: test(a(f), b(f))
        return lambda f: all(bool(t(a(f), b(f))) for t, a, b in zip(tests, parts, parts[1:]))

    def _comparison(self, op: ast.cmpop) -> Callable[[Any, Any], Any]:
        if isinstance(op, ast.Is):
            return operator.is_
        if isinstance(op, ast.IsNot):
            return operator.is_not
        if isinstance(op, ast.In):
            return lambda x, values: x in values
        if isinstance(op, ast.NotIn):
            return lambda x, values: x not in values
        return find_pair(OPERATORS[type(op)])

    def see_ListComp(self, node: ast.ListComp) -> Closure:
        (loop,) = node.generators if len(node.generators) == 1 else (None,)
        if loop is None or loop.is_async:
            raise self.fail(node)
        values = self.expression(loop.iter)
        put = self.store(loop.target)
        tests, made = [self.expression(t) for t in loop.ifs], self.expression(node.elt)

        def run(f: list[Any]) -> list[Any]:
            out: list[Any] = []
            given = iterated(values(f))
            if given.__class__ is range and not tests:
                _limits.room(len(given))
            for value in given:
                put(f, value)
                if not tests:
                    out.append(made(f))
                elif all(test(f) for test in tests):
                    out.append(made(f))
                    _limits.room(len(out))
            return out

        return run

    def subscript_key(self, node: ast.expr) -> Closure:
        if isinstance(node, ast.Slice):
            ends = [None if e is None else self.expression(e) for e in (node.lower, node.upper, node.step)]
            return lambda f: slice(*[None if e is None else e(f) for e in ends])
        if isinstance(node, ast.Tuple):
            parts = [self.subscript_key(e) for e in node.elts]
            return lambda f: tuple([part(f) for part in parts])
        return self.expression(node)

    def see_Subscript(self, node: ast.Subscript) -> Closure:
        value, key = self.expression(node.value), self.subscript_key(node.slice)
        return lambda f: subscript(value(f), key(f))

    def _checked(self, name: str, node: ast.AST) -> str:
        if name.startswith("__") and name not in ("__init__",):
            raise self.fail(node, f"the attribute {name!r:.100} may not be used")
        return name

    def see_Attribute(self, node: ast.Attribute) -> Closure:
        path = dotted(node)
        if path is not None and not self.is_variable(path[0]):
            found = self._outside(path, node)
            return lambda f: found
        module = self.module_of(node.value) if self.known else None
        part = None if module is None else self.part_of(module, node.attr)
        if part is not None:
            return part
        value, name = self.expression(node.value), self._checked(node.attr, node)
        return lambda f: read_attribute(value(f), name)

    def _outside(self, path: list[str], node: ast.AST) -> Any:
        """What a dotted name that begins with no variable means."""
        if path[0] == "CONSTANTS" and len(path) == 2:
            return self.program.constant(path[1])
        if path[0] == "__torch__":
            return self.program.definition(".".join(path))
        if path[0] == "torch" and len(path) == 2:
            code = dtype_named(path[1])
            if code is not None:
                return code
            return find("aten", path[1])
        if path[0] == "torch":
            return find("aten", "_".join(path[1:]))
        if path[0] == "ops" and len(path) == 3:
            return find(path[1], path[2])
        raise self.fail(node, f"the name {'.'.join(path):.100} is not defined")

    def see_Call(self, node: ast.Call) -> Closure:
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            raise self.fail(node, "arguments with stars are not part of TorchScript")
        function = node.func
        if isinstance(function, ast.Name) and not self.is_variable(function.id):
            special = getattr(self, "call_" + function.id, None)
            if special is not None:
                return special(node)
        args = [self.expression(a) for a in node.args]
        named = [(k.arg, self.expression(k.value)) for k in node.keywords]
        path = dotted(function)
        if path is not None and not self.is_variable(path[0]) and len(path) > 1:
            if path[-1] == "__new__" and path[0] == "__torch__":
                made = self.program.definition(".".join(path[:-1]))
                return lambda f: ScriptObject(made)
            if path[0] == "torch" and len(path) == 2 and len(args) == 2 and not named:
                return apply(find_pair(path[1]), args, named)
            return apply(self._outside(path, node), args, named)
        if isinstance(function, ast.Attribute):
            module = self.module_of(function.value) if self.known and not named else None
            if module is not None and function.attr in module._script.methods:
                inner = self.inlined(module, module._script.methods[function.attr], args)
                if inner is not None:
                    return inner
            value, name = self.expression(function.value), self._checked(function.attr, function)
            return lambda f: call_method(value(f), name, [a(f) for a in args], {k: v(f) for k, v in named})
        if isinstance(function, ast.Name) and not self.is_variable(function.id):
            found = builtin(function.id)
            if found is None:
                raise self.fail(node, f"the function {function.id!r:.100} is not defined")
            return apply(found, args, named)
        target = self.expression(function)

        def run(f: list[Any]) -> Any:
            called = target(f)
            values = [a(f) for a in args]
            if hasattr(called.__class__, "_script_read"):
                return call_method(called, "forward", values, {k: v(f) for k, v in named})
            if not hasattr(called, "script_callable"):
                raise RuntimeError(f"the program calls a value of type {type(called).__name__}")
            return called(*values, **{k: v(f) for k, v in named})

        return run

    # Forms that look like calls.

    def call_annotate(self, node: ast.Call) -> Closure:
        return self.expression(node.args[1])

    call_unchecked_cast = call_annotate

    def call_uninitialized(self, node: ast.Call) -> Closure:
        return lambda f: None

    def call_getattr(self, node: ast.Call) -> Closure:
        name = node.args[1].value if len(node.args) >= 2 and isinstance(node.args[1], ast.Constant) else None
        if not isinstance(name, str):
            raise self.fail(node, "getattr takes a module and a name")
        module = self.module_of(node.args[0]) if self.known else None
        part = None if module is None else self.part_of(module, name)
        if part is not None:
            return part
        value, name = self.expression(node.args[0]), self._checked(name, node)
        return lambda f: read_attribute(value(f), name)

    def call_isinstance(self, node: ast.Call) -> Closure:
        value, kind = self.expression(node.args[0]), node.args[1]
        return lambda f: is_of(value(f), kind)

    def call_fork(self, node: ast.Call) -> Closure:
        raise self.fail(node, "fork is not supported in programs from files")
