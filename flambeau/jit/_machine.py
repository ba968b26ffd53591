"""Runs TorchScript source: a function's syntax tree is checked and turned into closures over a frame of slots.

Python's own compiler never sees the text. What the language does not have raises when a program is read; names lead only
to operators (`_operators`), to other definitions of the same program and to the parts of values that are listed here.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from .._tensor import Tensor
from . import _containers, _limits
from ._closures import Closure, apply, constant, dotted, dtype_named, nothing, putter
from ._errors import Problem
from ._operators import builtin, find, find_pair
from ._values import ScriptObject, call_method, is_of, iterated, read_attribute, subscript, write_attribute

__all__ = ["Function"]

_BREAK, _CONTINUE = object(), object()  # what statements give to the block around them; a 1-tuple is a returned value
_OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "remainder",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "__and__", ast.BitOr: "__or__", ast.BitXor: "__xor__",
    ast.LShift: "__lshift__", ast.RShift: "__rshift__", ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le",
    ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip
_SILENT = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Pass)  # statements that never leave a block
_MOST_INLINED = 20_000  # statements of other methods that may become part of one
_NUMBERS = {"inf": math.inf, "nan": math.nan, "infj": complex(0, math.inf), "nanj": complex(0, math.nan)}


class Function:
    """A function or method of a program: parameters with defaults, and a body compiled when it first runs."""

    def __init__(self, program: Any, definition: ast.FunctionDef, path: str):
        self.program, self.definition, self.path = program, definition, path
        self.name = definition.name
        given = definition.args
        if given.vararg or given.kwarg or given.posonlyargs or definition.decorator_list:
            raise Problem(f"{path}: parameters with stars and decorators are not TorchScript")
        self.parameters = [a.arg for a in (*given.args, *given.kwonlyargs)]
        self.annotations = [a.annotation for a in (*given.args, *given.kwonlyargs)]
        self._body: Closure | None = None
        self._slots = 0
        self._defaults: list[Closure | None] = []

    def _compile(self) -> None:
        compiler = _Compiler(self.program, self.path, self.parameters)
        given = self.definition.args
        plain = [None] * (len(given.args) - len(given.defaults))
        outside = _Compiler(self.program, self.path, [])
        defaults = [*plain, *given.defaults, *given.kw_defaults]
        self._defaults = [None if d is None else outside.expression(d) for d in defaults]
        body = compiler.block(self.definition.body)
        self._slots = len(compiler.slots)
        self._body = body

    def __call__(self, *args: Any, **named: Any) -> Any:
        if self._body is None:
            self._compile()
        count = len(args)
        if count == len(self.parameters) and not named:
            frame = [*args, *(None,) * (self._slots - count)]
        else:
            frame = self._bound(args, named)
        result = self._body(frame)  # type: ignore[misc]
        return result[0] if result.__class__ is tuple else None

    def plan(self, module: Any) -> Callable[..., Any]:
        """The method for one module: submodules are looked up now, and their straight methods become part of it."""
        if self._body is None:
            self._compile()
        compiler = _Compiler(self.program, self.path, self.parameters)
        compiler.know(self.parameters[0], module, self.definition)
        body, names = compiler.block(self.definition.body), self.parameters
        slots, count = len(compiler.slots), len(self.parameters)
        blank = (None,) * (slots - count)

        def call(*args: Any, **named: Any) -> Any:
            if len(args) == count - 1 and not named:
                frame = [module, *args, *blank]
            else:
                frame = self._bound((module, *args), named)
                frame[len(names) :] = blank
            result = body(frame)
            return result[0] if result.__class__ is tuple else None

        return call

    def is_straight(self) -> bool:
        """Whether the body is assignments and one return at the end."""
        *steps, last = self.definition.body
        return (
            isinstance(last, ast.Return)
            and last.value is not None
            and all(isinstance(s, (ast.Assign, ast.Expr)) for s in steps)
        )

    def _bound(self, args: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        names = self.parameters
        if len(args) > len(names):
            raise RuntimeError(
                f"{self.name}() Expected at most {len(names)} argument(s) but received {len(args)} argument(s)"
            )
        frame: list[Any] = [None] * self._slots
        frame[: len(args)] = args
        for i, name in enumerate(names):
            if i < len(args):
                if name in named:
                    raise RuntimeError(f"{self.name}() got argument '{name}' twice")
            elif name in named:
                frame[i] = named[name]
            else:
                default = self._defaults[i]
                if default is None:
                    raise RuntimeError(f"{self.name}() is missing value for argument '{name}'")
                frame[i] = default([])
        unknown = named.keys() - set(names)
        if unknown:
            raise RuntimeError(f"Unknown keyword argument '{min(unknown)}' for operator '{self.name}'")
        return frame


# -- from syntax to closures -------------------------------------------------------------------------------------


class _Compiler:
    """Compiles one function: names of variables become places in the frame."""

    def __init__(self, program: Any, path: str, parameters: list[str]):
        self.program, self.path = program, path
        self.slots = {name: i for i, name in enumerate(parameters)}
        self.known: dict[str, Any] = {}  # variables that hold modules which are known now
        self.once: set[str] = set()  # variables that are set in one place
        self.prefix = ""  # of variables of a method that becomes part of another
        self.room = [_MOST_INLINED]

    # What is known of modules before the program runs.

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

    def inlined(self, module: Any, function: Function, args: list[Closure]) -> Closure | None:
        """A straight method of a known module as part of this function."""
        steps = len(function.definition.body)
        if len(args) + 1 != len(function.parameters) or not function.is_straight() or self.room[0] < steps:
            return None
        self.room[0] -= steps
        inner = _Compiler(function.program, function.path, [])
        inner.slots, inner.room = self.slots, self.room
        inner.prefix = f"{self.prefix}{len(self.slots)}:"
        inner.know(function.parameters[0], module, function.definition)
        places = [inner.slot(name) for name in function.parameters[1:]]
        body = [inner.statement(s) for s in function.definition.body[:-1]]
        body = [step for step in body if step is not nothing]
        result = inner.expression(function.definition.body[-1].value)  # type: ignore[attr-defined]
        if len(args) == 1 and len(body) == 0:
            (at,), (first,) = places, args

            def run_one(f: list[Any]) -> Any:
                f[at] = first(f)
                return result(f)

            return run_one
        pairs = list(zip(places, args))

        def run(f: list[Any]) -> Any:
            for at, value in pairs:
                f[at] = value(f)
            for step in body:
                step(f)
            return result(f)

        return run

    def fail(self, node: ast.AST, what: str = "") -> Problem:
        line = getattr(node, "lineno", 0)
        return Problem(f"{self.path}, line {line}: {what or type(node).__name__ + ' is not part of TorchScript'}")

    def is_variable(self, name: str) -> bool:
        return self.prefix + name in self.slots or name in self.known

    def slot(self, name: str) -> int:
        if name.startswith("__"):
            raise Problem(f"{self.path}: the name {name!r:.100} may not be used")
        return self.slots.setdefault(self.prefix + name, len(self.slots))

    # Statements.

    def block(self, nodes: list[ast.stmt]) -> Closure:
        steps = [self.statement(node) for node in nodes]
        if len(steps) > 1 and all(isinstance(node, _SILENT) for node in nodes[:-1]):
            return self._straight([step for step in steps[:-1] if step is not nothing], steps[-1])
        steps = [step for step in steps if step is not nothing]
        if not steps:
            return nothing
        if len(steps) == 1:
            return steps[0]

        def run(f: list[Any]) -> Any:
            for step in steps:
                signal = step(f)
                if signal is not None:
                    return signal
            return None

        return run

    @staticmethod
    def _straight(steps: list[Closure], last: Closure) -> Closure:
        """Statements of which only the last may leave the block."""

        def run(f: list[Any]) -> Any:
            for step in steps:
                step(f)
            return last(f)

        return run

    def statement(self, node: ast.stmt) -> Closure:
        visit = getattr(self, "do_" + type(node).__name__, None)
        if visit is None:
            raise self.fail(node)
        return visit(node)

    def do_Pass(self, node: ast.Pass) -> Closure:
        return nothing

    def do_Expr(self, node: ast.Expr) -> Closure:
        value = self.expression(node.value)

        def run(f: list[Any]) -> None:
            value(f)

        return run

    def do_Return(self, node: ast.Return) -> Closure:
        if node.value is None:
            return lambda f: (None,)
        value = self.expression(node.value)
        return lambda f: (value(f),)

    def do_Break(self, node: ast.Break) -> Closure:
        return lambda f: _BREAK

    def do_Continue(self, node: ast.Continue) -> Closure:
        return lambda f: _CONTINUE

    def do_Assign(self, node: ast.Assign) -> Closure:
        if self.known and len(node.targets) == 1 and getattr(node.targets[0], "id", None) in self.once:
            module = self.module_of(node.value)
            if module is not None:
                self.known[node.targets[0].id] = module  # type: ignore[attr-defined]
                return nothing
        value = self.expression(node.value)
        if len(node.targets) == 1:
            if isinstance(node.targets[0], ast.Name):
                at = self.slot(node.targets[0].id)

                def run(f: list[Any]) -> None:
                    f[at] = value(f)

                return run
        stores = [self.store(t) for t in node.targets]

        def run_all(f: list[Any]) -> None:
            made = value(f)
            for put in stores:
                put(f, made)

        return run_all

    def do_AnnAssign(self, node: ast.AnnAssign) -> Closure:
        if node.value is None:
            return lambda f: None
        put, value = self.store(node.target), self.expression(node.value)

        def run(f: list[Any]) -> None:
            put(f, value(f))

        return run

    def do_AugAssign(self, node: ast.AugAssign) -> Closure:
        name = _OPERATORS.get(type(node.op))
        if name is None:
            raise self.fail(node)
        plain, changed = find("aten", name), name in ("add", "sub", "mul", "div")
        in_place = find("aten", name + "_") if changed else plain
        read = self.expression(node.target)
        put, value = self.store(node.target), self.expression(node.value)

        def run(f: list[Any]) -> None:
            old = read(f)
            put(f, (in_place if isinstance(old, (Tensor, list)) else plain)(old, value(f)))

        return run

    def store(self, target: ast.expr) -> Callable[[list[Any], Any], None]:
        if isinstance(target, ast.Name):
            return putter(self.slot(target.id))
        if isinstance(target, (ast.Tuple, ast.List)):
            parts = [self.store(t) for t in target.elts]

            def unpack(f: list[Any], value: Any) -> None:
                if not isinstance(value, (tuple, list, Tensor)) or len(value) != len(parts):
                    raise RuntimeError(f"the program expects {len(parts)} values")
                for put, part in zip(parts, value):
                    put(f, part)

            return unpack
        if isinstance(target, ast.Attribute):
            holder, name = self.expression(target.value), self._checked(target.attr, target)
            return lambda f, value: write_attribute(holder(f), name, value)
        if isinstance(target, ast.Subscript):
            holder, key = self.expression(target.value), self.subscript_key(target.slice)

            def set_item(f: list[Any], value: Any) -> None:
                owner = holder(f)
                if not isinstance(owner, (Tensor, list, dict)):
                    raise RuntimeError(f"the program sets a part of a value of type {type(owner).__name__}")
                owner[key(f)] = value

            return set_item
        raise self.fail(target)

    def do_If(self, node: ast.If) -> Closure:
        test, then, other = self.expression(node.test), self.block(node.body), self.block(node.orelse)
        return lambda f: then(f) if test(f) else other(f)

    def do_While(self, node: ast.While) -> Closure:
        if node.orelse:
            raise self.fail(node, "else of a loop is not part of TorchScript")
        test, body = self.expression(node.test), self.block(node.body)

        def run(f: list[Any]) -> Any:
            while test(f):
                signal = body(f)
                if signal is not None:
                    if signal is _BREAK:
                        break
                    if signal is not _CONTINUE:
                        return signal
            return None

        return run

    def do_For(self, node: ast.For) -> Closure:
        if node.orelse:
            raise self.fail(node, "else of a loop is not part of TorchScript")
        values, put, body = self.expression(node.iter), self.store(node.target), self.block(node.body)

        def run(f: list[Any]) -> Any:
            for value in iterated(values(f)):
                put(f, value)
                signal = body(f)
                if signal is not None:
                    if signal is _BREAK:
                        break
                    if signal is not _CONTINUE:
                        return signal
            return None

        return run

    def do_With(self, node: ast.With) -> Closure:
        if len(node.items) != 1:
            raise self.fail(node)
        manager, body = self.expression(node.items[0].context_expr), self.block(node.body)
        name = node.items[0].optional_vars
        put = (lambda f, value: None) if name is None else self.store(name)

        def run(f: list[Any]) -> Any:
            value = manager(f)
            if value.__class__ is not ScriptObject:
                raise RuntimeError(f"the program enters a value of type {type(value).__name__}")
            put(f, value._script.method("__enter__")(value))
            try:
                return body(f)
            finally:
                value._script.method("__exit__")(value, None, None, None)

        return run

    def do_Assert(self, node: ast.Assert) -> Closure:
        test = self.expression(node.test)
        message = (lambda f: "") if node.msg is None else self.expression(node.msg)

        def run(f: list[Any]) -> None:
            if not test(f):
                _containers.PRIM["RaiseException"](message(f), "builtins.AssertionError")

        return run

    def do_Raise(self, node: ast.Raise) -> Closure:
        error = node.exc
        name, args = "Exception", []
        if isinstance(error, ast.Call) and isinstance(error.func, ast.Name):
            name, args = error.func.id, [self.expression(a) for a in error.args]
        elif isinstance(error, ast.Name):
            name = error.id

        def run(f: list[Any]) -> None:
            _containers.PRIM["RaiseException"](" ".join(str(a(f)) for a in args), f"builtins.{name}")

        return run

    def do_Delete(self, node: ast.Delete) -> Closure:
        steps = []
        for target in node.targets:
            if not isinstance(target, ast.Subscript):
                raise self.fail(node)
            steps.append((self.expression(target.value), self.subscript_key(target.slice)))

        def run(f: list[Any]) -> None:
            for holder, key in steps:
                owner = holder(f)
                if not isinstance(owner, (list, dict)):
                    raise RuntimeError(f"the program deletes a part of a value of type {type(owner).__name__}")
                del owner[key(f)]

        return run

    # Expressions.

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
        return apply(find_pair(_OPERATORS[type(node.op)]), [a, b], [])

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
        return find_pair(_OPERATORS[type(op)])

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
            if not isinstance(called, Function) and not hasattr(called, "script_callable"):
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
