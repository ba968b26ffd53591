"""Runs TorchScript source: a function's syntax tree is checked and turned into closures over a frame of slots.

Python's own compiler never sees the text. What the language does not have raises when a program is read; names lead only
to operators (`_operators`), to other definitions of the same program and to the parts of values that `_values` lists.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from .._tensor import Tensor
from . import _containers
from ._closures import Closure, nothing, putter
from ._errors import Problem
from ._expressions import OPERATORS, Expressions
from ._operators import find
from ._values import ScriptObject, iterated, write_attribute

_BREAK, _CONTINUE = object(), object()  # what statements give to the block around them; a 1-tuple is a returned value
_SILENT = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Pass)  # statements that never leave a block


class Function:
    """A function or method of a program: parameters with defaults, and a body compiled when it first runs."""

    script_callable = True

    def __init__(self, program: Any, definition: ast.FunctionDef, path: str):
        self.program, self.definition, self.path = program, definition, path
        self.name = definition.name
        given = definition.args
        if given.vararg or given.kwarg or given.posonlyargs or definition.decorator_list:
            raise Problem(f"{path}: parameters with stars and decorators are not TorchScript")
        self.parameters = [a.arg for a in (*given.args, *given.kwonlyargs)]
        self.annotations = [a.annotation for a in (*given.args, *given.kwonlyargs)]
        self._repeated = [(i, n) for i, n in enumerate(map(_count, self.annotations)) if n]
        self._body: Closure | None = None
        self._slots = 0
        self._defaults: list[Closure | None] = []

    def _compile(self) -> None:
        compiler = Statements(self.program, self.path, self.parameters)
        given = self.definition.args
        plain = [None] * (len(given.args) - len(given.defaults))
        outside = Statements(self.program, self.path, [])
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
        for i, count in self._repeated:
            if frame[i].__class__ in (int, float):
                frame[i] = [frame[i]] * count
        result = self._body(frame)  # type: ignore[misc]
        return result[0] if result.__class__ is tuple else None

    def plan(self, module: Any) -> Callable[..., Any]:
        """The method for one module: submodules are looked up now, and their straight methods become part of it."""
        if self._body is None:
            self._compile()
        compiler = Statements(self.program, self.path, self.parameters)
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


def _count(annotation: ast.expr | None) -> int:
    """How many numbers one stands for where a parameter is a `BroadcastingList3[int]`; 0 for other types."""
    if isinstance(annotation, ast.Subscript) and isinstance(annotation.value, ast.Name):
        if annotation.value.id == "Optional":
            return _count(annotation.slice)
        name, _, count = annotation.value.id.partition("BroadcastingList")
        return int(count) if not name and count in ("1", "2", "3", "4", "5", "6") else 0
    return 0


class Statements(Expressions):
    """Compiles one function."""

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
        name = OPERATORS.get(type(node.op))
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

    def inlined(self, module: Any, function: Function, args: list[Closure]) -> Closure | None:
        """A straight method of a known module as part of this function."""
        steps = len(function.definition.body)
        if len(args) + 1 != len(function.parameters) or not function.is_straight() or self.room[0] < steps:
            return None
        self.room[0] -= steps
        inner = Statements(function.program, function.path, [])
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
