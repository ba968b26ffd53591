"""Training steps in the text of a program: statements that lead to `backward()` and on to `step()` become functions of their own.

A step is taken out of a loop or a function only if that cannot be noticed: names that it reads are known to be bound before it,
names that it binds are handed back, and nothing in it depends on where it stands.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_LOOPS = (ast.For, ast.While, ast.AsyncFor)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_BOUND_TO_PLACE = (
    *_NESTED, ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.Break, ast.Continue, ast.Global, ast.Nonlocal, ast.Delete,
    ast.Import, ast.ImportFrom, ast.Try, ast.AsyncFor, ast.AsyncWith, ast.NamedExpr, ast.Match,
)  # fmt: skip
_ENDS = (ast.Raise, ast.Return, ast.Break, ast.Continue)
_OF_PLACE = frozenset(("super", "__class__", "locals", "globals", "vars", "dir", "eval", "exec"))
# Calls with which a step ends: they show something to somebody, or read elements for Python.
_HOST = frozenset(("print", "next", "input", "open", "item", "tolist", "numpy", "append", "write", "info", "set_description",
                   "set_postfix", "add_scalar", "save"))  # fmt: skip


class Step(NamedTuple):
    """A step that was found."""

    name: str
    lines: tuple[int, int]
    refused: str  # why it stays where it is; empty if it was taken out


class Names(NamedTuple):
    """What statements do with names."""

    read: frozenset[str]  # before they bind them
    bound: frozenset[str]  # in any case
    stored: frozenset[str]  # perhaps


def outlined(tree: ast.Module, opening: str) -> list[Step]:
    """Takes steps out of a program in place; `opening` is an expression whose value decorates the functions that they become."""
    finder = _Finder(tree)
    finder.module()
    if finder.functions:
        first = 0
        for i, statement in enumerate(tree.body):
            text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if text or (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
                first = i + 1
            else:
                break
        for function in finder.functions:
            decorator = ast.parse(opening, mode="eval").body
            for node in ast.walk(decorator):
                ast.copy_location(node, function)
            function.decorator_list = [decorator]
        tree.body[first:first] = finder.functions
        ast.fix_missing_locations(tree)
    return finder.found


class _Scope(NamedTuple):
    node: Any  # a module or a function
    names: frozenset[str]  # that change or are local: what a step is given
    inside_class: bool
    whole: Any  # where else names may be read


class _Finder:
    def __init__(self, tree: ast.Module):
        self.tree = tree
        self.found: list[Step] = []
        self.functions: list[Any] = []
        named = (
            n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom))
        )
        self.declared = {*dir(builtins), *(name for n in named for name in _stored([n]))}
        self.shows_names = any(isinstance(n, ast.Name) and n.id in _OF_PLACE - {"super"} for n in ast.walk(tree))

    def module(self) -> None:
        scope = _Scope(self.tree, frozenset(), False, self.tree)
        self._list(self.tree.body, scope, frozenset(), frozenset(), "")

    def _function(self, node: Any, outer: _Scope, inside_class: bool) -> None:
        a = node.args
        given = {p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) if p is not None}
        elsewhere = {n for s in _within(node.body) if isinstance(s, ast.Global) for n in s.names}
        free = outer.names if isinstance(outer.node, (ast.FunctionDef, ast.AsyncFunctionDef)) else frozenset()
        local = frozenset((given | _stored(node.body) | free) - elsewhere)
        scope = _Scope(node, local, inside_class, outer.whole if free else node)
        self._list(node.body, scope, frozenset(given | free), frozenset(), "")

    def _list(
        self, body: list[Any], scope: _Scope, known: frozenset[str], counters: frozenset[str], trouble: str
    ) -> None:
        """Looks for a step among statements in a row; `known` names are bound before them, `counters` change with each round."""
        in_function = scope.node is not self.tree
        if (in_function or scope.names) and any(map(_goes_back, body)):
            if self._cut(body, scope, known, counters, trouble):
                return
        for s in body:
            self._inside(s, scope, known, counters, trouble)
            known |= _names([s]).bound

    def _inside(self, s: Any, scope: _Scope, known: frozenset[str], counters: frozenset[str], trouble: str) -> None:
        if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._function(s, scope, scope.inside_class and scope.node is not self.tree)
        elif isinstance(s, ast.ClassDef):
            for method in s.body:
                if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    self._function(method, scope, True)
        elif isinstance(s, _LOOPS):
            if isinstance(s, (ast.For, ast.AsyncFor)):
                known |= _targets(s.target)
                counters |= _counted(s)
            if scope.node is self.tree:
                scope = scope._replace(names=scope.names | _stored([s]))
            self._list(s.body, scope, known, counters, trouble)
        elif isinstance(s, (ast.With, ast.AsyncWith)):
            known = known.union(*[_targets(i.optional_vars) for i in s.items if i.optional_vars is not None])
            self._list(s.body, scope, known, counters, trouble)
        elif isinstance(s, ast.If):
            self._list(s.body, scope, known, counters, trouble)
            self._list(s.orelse, scope, known, counters, trouble)
        elif isinstance(s, ast.Try):
            caught = [h for h in s.handlers if getattr(h.type, "id", "") != "KeyboardInterrupt"]
            why = "an exception in it would be caught in the same function" if caught else trouble
            self._list(s.body, scope, known, counters, why)

    def _calls_objects(self, s: Any) -> bool:
        """Whether a statement calls something that the program has made, a model most likely."""
        called = (n.func.id for n in _walk([s]) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name))
        return any(name not in self.declared for name in called)

    # -- one step ----------------------------------------------------------------------------------------------------

    def _cut(
        self, body: list[Any], scope: _Scope, known: frozenset[str], counters: frozenset[str], trouble: str
    ) -> bool:
        """Replaces a step among statements by a call; False if there is none, or none that can be taken out."""
        at = next(i for i, s in enumerate(body) if _goes_back(s))
        stops = [_shows(s) or bool(_names([s]).read & counters) for s in body]
        first, last = at, at
        for i in range(at - 1, -1, -1):
            if stops[i] or isinstance(body[i], _LOOPS):
                break
            if _calls(body[i], "zero_grad") or _names([body[i]]).read & scope.names or self._calls_objects(body[i]):
                first = i
        for i in range(at, len(body)):
            if stops[i]:
                break
            if _goes_back(body[i]) or _calls(body[i], "step"):
                last = i
        part = body[first : last + 1]
        lines = part[0].lineno, part[-1].end_lineno
        name = f"__step_{lines[0]}__"
        before = known | _names(body[:first]).bound
        names = _names(part)
        rest = names.stored - names.bound  # bound in some cases only
        reason = trouble or _reason(part, scope.inside_class)
        if stops[at]:
            reason = reason or "it reads elements, shows something or asks for the number of the round"
        unknown = ((names.read & scope.names) | rest) - before
        if unknown:
            reason = reason or f"{', '.join(sorted(unknown))} may not be bound before it"
        if scope.node is self.tree and not names.stored <= scope.names:
            reason = reason or "it is not in a loop"
        self.found.append(Step(name, lines, reason))
        if reason:
            return True
        given = sorted((names.read & scope.names) | rest)
        used = names.stored & (_loaded(scope.whole, part) | names.read | rest)
        results = sorted(names.stored if self.shows_names else used)
        load = lambda n: ast.copy_location(ast.Name(n, ast.Load()), part[0])
        out = ast.Return(ast.Tuple([load(n) for n in results], ast.Load()))
        arguments = ast.arguments([], [ast.arg(n) for n in given], None, [], [], None, [])
        made: Any = ast.FunctionDef(name, arguments, [*part, ast.copy_location(out, part[-1])], [], None)
        if "type_params" in ast.FunctionDef._fields:
            made.type_params = []
        self.functions.append(ast.copy_location(made, part[0]))
        call = ast.Call(load(name), [load(n) for n in given], [])
        placed: Any = ast.Expr(call)
        if results:
            placed = ast.Assign([ast.Tuple([ast.Name(n, ast.Store()) for n in results], ast.Store())], call)
        body[first : last + 1] = [ast.fix_missing_locations(ast.copy_location(placed, part[0]))]
        return True


def _reason(part: Sequence[Any], inside_class: bool) -> str:
    """Why statements must stay where they are."""
    for node in _walk(part):
        if isinstance(node, _BOUND_TO_PLACE):
            return f"line {getattr(node, 'lineno', part[0].lineno)} ({type(node).__name__}) must stay where it is"
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if isinstance(node, ast.Name) and name in _OF_PLACE:
            return f"{name} depends on where it stands"
        if inside_class and name.startswith("__") and not name.endswith("__"):
            return f"{name} belongs to the class"
    return ""


# -- names -----------------------------------------------------------------------------------------------------------


def _names(body: Iterable[Any]) -> Names:
    """What statements read before they bind it, and what they bind."""
    read: set[str] = set()
    bound: set[str] = set()
    stored: set[str] = set()

    def ask(*parts: Any) -> None:
        read.update(n for part in parts if part is not None for n in _loads(part) if n not in bound)

    def bind(names: Iterable[str]) -> None:
        bound.update(names)
        stored.update(names)

    def inner(body: list[Any]) -> Names:
        found = _names(body)
        read.update(found.read - bound)
        stored.update(found.stored)
        return found

    for s in body:
        if isinstance(s, ast.If):
            ask(s.test)
            yes, no = inner(s.body), inner(s.orelse)
            ends = [bool(part) and isinstance(part[-1], _ENDS) for part in (s.body, s.orelse)]
            bound.update(no.bound if ends[0] else yes.bound if ends[1] else yes.bound & no.bound)
        elif isinstance(s, (ast.With, ast.AsyncWith)):
            for item in s.items:
                ask(item.context_expr)
                if item.optional_vars is not None:
                    bind(_targets(item.optional_vars))
            bound.update(inner(s.body).bound)
        elif isinstance(s, (ast.For, ast.AsyncFor)):
            ask(s.iter)
            stored.update(_targets(s.target))
            found = _names(s.body)
            read.update(found.read - bound - _targets(s.target))
            stored.update(found.stored)
            inner(s.orelse)
        elif isinstance(s, ast.While):
            ask(s.test)
            inner(s.body)
            inner(s.orelse)
        elif isinstance(s, ast.Try):
            for part in (s.body, s.orelse, s.finalbody, *[h.body for h in s.handlers]):
                inner(part)
        elif isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bind([s.name])
        elif isinstance(s, (ast.Import, ast.ImportFrom)):
            bind([(a.asname or a.name).partition(".")[0] for a in s.names])
        elif isinstance(s, ast.AugAssign):
            ask(s.value, s.target)
            if isinstance(s.target, ast.Name):
                ask(ast.Name(s.target.id, ast.Load()))
                bind([s.target.id])
        else:
            ask(s)
            if not (isinstance(s, ast.AnnAssign) and s.value is None):
                bind(_stored([s]))
    return Names(frozenset(read), frozenset(bound), frozenset(stored))


def _loads(node: Any) -> Iterator[str]:
    """Names that an expression or a simple statement reads; not those of comprehensions."""
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Load):
            yield node.id
        return
    parts = (n for child in ast.iter_child_nodes(node) for n in _loads(child))
    if isinstance(node, _COMPREHENSIONS):
        own = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
        yield from (n for n in parts if n not in own)
        yield from _loads(node.generators[0].iter)
    else:
        yield from parts


def _targets(node: Any) -> frozenset[str]:
    return frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def _stored(body: Iterable[Any]) -> set[str]:
    """Names that statements may bind, themselves and in blocks, not in functions."""
    found: set[str] = set()
    for node in _walk(body):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update((a.asname or a.name).partition(".")[0] for a in node.names)
    return found


def _loaded(whole: Any, part: Sequence[Any]) -> frozenset[str]:
    """Names that are read anywhere but in some statements."""
    inside = {id(n) for s in part for n in ast.walk(s)}
    return frozenset(
        n.id
        for n in ast.walk(whole)
        if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store) and id(n) not in inside
    )


def _counted(loop: Any) -> frozenset[str]:
    """Variables that count the rounds of a loop."""
    called = getattr(getattr(loop.iter, "func", None), "id", "")
    if called == "range" and isinstance(loop.target, ast.Name):
        return frozenset((loop.target.id,))
    if called == "enumerate" and isinstance(loop.target, ast.Tuple) and isinstance(loop.target.elts[0], ast.Name):
        return frozenset((loop.target.elts[0].id,))
    return frozenset()


# -- statements ------------------------------------------------------------------------------------------------------


def _walk(body: Iterable[Any]) -> Iterator[Any]:
    """All nodes of statements, without those inside of functions, classes and comprehensions that they contain."""
    for node in body:
        yield node
        if isinstance(node, _COMPREHENSIONS):
            yield from _walk(n for n in ast.walk(node) if isinstance(n, (ast.NamedExpr, ast.Lambda)))
        elif not isinstance(node, _NESTED):
            yield from _walk(ast.iter_child_nodes(node))


def _within(body: Iterable[Any]) -> Iterator[Any]:
    return (n for n in _walk(body) if isinstance(n, ast.stmt))


def _calls(s: Any, *names: str) -> bool:
    return any(
        isinstance(n, ast.Call) and getattr(n.func, "attr", getattr(n.func, "id", "")) in names for n in _walk([s])
    )


def _goes_back(s: Any) -> bool:
    """Whether a statement differentiates, and not in a loop or function of its own."""
    if isinstance(s, ast.With):
        return any(map(_goes_back, s.body)) and not _shows(s)
    return not isinstance(s, (*_LOOPS, *_NESTED, ast.Try, ast.If)) and _calls(s, "backward")


def _shows(s: Any) -> bool:
    return _calls(s, *_HOST)
