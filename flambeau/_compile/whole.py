"""Functions that are one step of a program each, with their gradients: Python calls them in each run.

What such a function computes is history of its own, from its results back to its arguments. It is kept in a tensor without elements,
which the step gives besides its results; the backward step finds it there.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from .._autograd import engine
from .._autograd.modes import set_grad_enabled
from .._autograd.node import Node as History
from .._autograd.node import edge_of
from .._core.dtypes import uint8
from .._core.state import GRAD, local
from .._core.steps import elements_are_read, python_step
from .._errors.frames import PACKAGE
from .._interception.autocast import settings
from .._ops.registry import ops
from .._tensor import Tensor, detached, wrap
from .breaks import Break
from .graph import replaced
from .holders import plain
from .names import codes_in


class Whole:
    """A function as a step. `wanted` says which of the tensors that it is given need gradients, `known` are others that do.

    Gradients that one run may have and another may not (`sure` is false: which branch was taken?) are zeros where they are missing.
    """

    name = backward_name = "compiled_step"

    def __init__(
        self, function: Callable[..., Any], wanted: Sequence[bool], known: Sequence[Tensor] = (), sure: bool = True
    ):
        self.function, self.wanted, self.known, self.sure = function, wanted, known, sure
        # the numbers of tensors among those given, if some are given twice: where each was first
        self.firsts: Sequence[int] = ()
        self.reached: list[bool] = []  # which gradients there were when the backward pass was recorded
        self.casting = None if local.autocast is None else _state(local.autocast)

    @property
    def __name__(self) -> str:
        return getattr(self.function, "__name__", "step")

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The results of the function, and its history."""
        made, kept = self.computed(args, named)[1:]
        return (*map(detached, made), kept)

    def with_history(self, *args: Any, **named: Any) -> Any:
        """The same, as a part of the history of what it is given."""
        with Casting(self.casting):
            return (*tensors_in(self.function(*args, **named)), ops.empty(0))

    def computed(self, args: Any, named: Any) -> tuple[Any, list[Tensor], Tensor]:
        """What the function gives for arguments without history, the tensors in that, and the history between."""
        given: list[Tensor] = []

        def own(t: Tensor) -> Tensor:
            number = len(given)
            first = self.firsts[number] if self.firsts else number
            t = given[first] if first < number else detached(t)
            if self.wanted[number]:
                t._k |= GRAD
            given.append(t)
            return t

        args, named = replaced((args, named), Tensor, own)
        with set_grad_enabled(any(self.wanted) or bool(self.known)), Casting(self.casting):
            out = self.function(*args, **named)
            if not self.sure:  # a branch may give back what it was given, as long as no other does
                out = replaced(out, Tensor, lambda t: ops.clone(t) if any([_together(t, a) for a in given]) else t)
        made = tensors_in(out)
        return out, made, self.kept(made, given)

    def kept(self, made: Sequence[Tensor], given: Sequence[Tensor]) -> Tensor:
        """The tensor that keeps the history between what was given and what was made of it."""
        array = np.empty(0, np.uint8).view(_Kept)
        array.whole, array.roots = self, [_as_it_is(t) for t in made]
        array.leaves = [_as_it_is(t) if need else None for t, need in zip(given, self.wanted)]
        array.leaves += self.known
        return wrap(array, uint8)

    def cut(self, made: Sequence[Tensor], given: Sequence[Tensor], kept: Tensor) -> None:
        """Puts one node between results and arguments, in the place of what the function has recorded."""
        ends = [t if need else None for t, need in zip(given, self.wanted)]
        edges = tuple([None if t is None else edge_of(t) for t in (*ends, *self.known)])
        if not any([e is not None for e in edges]):
            return
        node = History(self, edges, (kept,), [(t._array.shape, t.dtype) for t in made])
        for i, t in enumerate(made):
            if t.dtype.category >= 2 and (t._k & GRAD or not self.sure):
                t._k |= GRAD
                t._edge = (node, i)

    def backward(self, node: History, g: Any, create_graph: bool) -> list[Any]:
        (kept,) = node.saved
        if create_graph:  # what is recorded of it would be what this run does, with its numbers and branches
            elements_are_read(of_shape=True)
        return _pulled(kept, g, True) if create_graph else list(pull(kept, *g))


class _Kept(np.ndarray):
    """No elements, but a history: where it begins and ends."""

    whole: Whole
    roots: list[Tensor]
    leaves: list[Any]


def _pulled(kept: Tensor, gradients: Sequence[Any], create_graph: bool = False) -> list[Any]:
    array: Any = kept._array
    whole, wanted = array.whole, [t for t in array.leaves if t is not None]
    pairs = [(t, g) for t, g in zip(array.roots, gradients) if g is not None and t._k & GRAD]
    found: Any = {}
    if pairs:
        roots, starts = zip(*pairs)
        found = engine.run(roots, starts, True, create_graph, wanted, into_leaves=False)
    edges = [None if t is None else edge_of(t) for t in array.leaves]
    made = [None if e is None else found.get((id(e[0]), e[1])) for e in edges]
    whole.reached = whole.reached or [e is not None and (g is not None or not whole.sure) for e, g in zip(edges, made)]
    return [
        engine.zeros(t._array.shape, t.dtype, t._k & ~GRAD) if g is None and there else g
        for g, there, t in zip(made, whole.reached, array.leaves)
    ]


@python_step
def pull(kept: Tensor, *gradients: Any) -> tuple[Any, ...]:
    """The gradients of what a step was given, from those of what it made."""
    given = [g for g in gradients if g is not None]
    made = _pulled(kept, gradients)  # in memory of their own: another run may not hand on what it was given
    return tuple([ops.clone(g) if g is not None and any([_together(g, a) for a in given]) else g for g in made])


def _as_it_is(t: Tensor) -> Tensor:
    """A tensor with its history, whatever becomes of the history of the other."""
    if t._edge is None:
        return t
    made = detached(t)
    made._k |= t._k & GRAD
    made._edge = t._edge
    return made


def _together(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors may lie in the same memory."""
    arrays = a._array, b._array
    return a is b or not all([isinstance(x, np.ndarray) for x in arrays]) or bool(np.may_share_memory(*arrays))


def one_behind_another(ends: Sequence[Tensor]) -> bool:
    """Whether one of some tensors was made of another: a pass from results to them would count its way twice."""
    edges = [edge_of(t) for t in ends]
    nodes, seen = {id(e[0]) for e in edges}, set[int]()
    waiting = [e for edge in edges if not isinstance(edge[0], Tensor) for e in edge[0].edges] if len(edges) > 1 else []
    while waiting:
        edge = waiting.pop()
        if edge is None or id(edge[0]) in seen:
            continue
        if id(edge[0]) in nodes:
            return True
        seen.add(id(edge[0]))
        if not isinstance(edge[0], Tensor):
            waiting.extend(edge[0].edges)
    return False


class Casting:
    """A block in which autocast is as it was."""

    def __init__(self, state: Any):
        self.state = state
        self.now: Any = None

    def __enter__(self) -> None:
        now = local.autocast
        if now is self.state is None or (now is not None and _state(now) == self.state):
            return
        self.now = settings()
        self.now.nesting += 1  # copies of parameters are for this block alone, or for one around it
        self.outer = _state(self.now)
        self._switch(self.state or (True, dict.fromkeys(self.now.on, False), {}))

    def __exit__(self, *error: Any) -> None:
        if self.now is not None:
            self.now.nesting -= 1
            if not self.now.nesting:
                self.now.copies.clear()
            self._switch(self.outer)

    def _switch(self, state: Any) -> None:
        self.now.cached, on, dtypes = state
        self.now.dtypes.update(dtypes)
        for device, switched in on.items():
            self.now.switch(device, switched)


def _state(now: Any) -> Any:
    return now.cached, dict(now.on), dict(now.dtypes)


# -- functions that users wrote -------------------------------------------------------------------------------------------


class Called:
    """A function of users' functions and tensors (`cond`), as a function of tensors alone.

    What the users' functions know of the run (`held`: tensors in their closures that it has made) are arguments, too.
    """

    def __init__(self, function: Callable[..., Any], users: Sequence[Any], made_here: Callable[[Tensor], bool]):
        self.function, self.users = function, users
        self.problem = ""  # why that cannot be
        self.reached: dict[int, Any] = {}  # functions and modules that may be called
        try:
            found = [t for f in users for t in known_to(f, self.reached)]
        except Break as problem:
            self.problem, found = problem.reason, []
        self.held = list({id(t): t for t in found if made_here(t)}.values())
        self.known = list({id(t): t for t in found if t._k & GRAD and t._edge is None and not made_here(t)}.values())
        self.__name__ = getattr(function, "__name__", "step")
        if all(map(_is_ours, users)):  # nobody else changes what they know
            self.reached.clear()

    def __call__(self, held: Sequence[Tensor], *args: Any) -> Any:
        others = {id(t): other for t, other in zip(self.held, held)}
        return self.function(*[_with(f, others) for f in self.users], *args)


def known_to(a: Any, seen: dict[int, Any], existed: Callable[[Any], bool] | None = None) -> Iterator[Tensor]:
    """Tensors that a function can find, as far as one can see: in its closure, in modules, among globals that it names.

    With `existed`, those that it could not find before the run: what was there then is asked again when it is called.
    """
    if id(a) in seen or (existed is not None and existed(a)):
        return
    seen[id(a)] = a
    parts: Iterable[Any] = ()
    if isinstance(a, Tensor):
        yield a
    elif isinstance(a, (list, tuple, dict)):
        parts = a.values() if isinstance(a, dict) else a
    elif hasattr(a, "_parameters") and hasattr(a, "parameters"):
        seen.update([(id(m), m) for m in a.modules()])
        yield from a.parameters()
    elif isinstance(a, types.MethodType):
        parts = (a.__self__, a.__func__)
    elif isinstance(a, types.FunctionType):
        names = (
            [n for code in codes_in(a.__code__) for n in code.co_names] if existed is None and not _is_ours(a) else ()
        )
        held = [c.cell_contents for c in a.__closure__ or () if _is_filled(c)]
        parts = (*[a.__globals__[n] for n in names if n in a.__globals__], *held, *(a.__defaults__ or ()))
    elif isinstance(a, functools.partial):
        parts = (a.func, a.args, a.keywords)
    elif hasattr(a, "user_pre_hooks"):  # of the backward pass of a module
        parts = (a.module, a.user_hooks, a.user_pre_hooks)
    elif not plain(a) and not isinstance(a, (type, types.ModuleType, types.BuiltinFunctionType)):
        raise Break(f"an object of class {type(a).__name__} that a branch or hook knows")
    for part in parts:
        yield from known_to(part, seen, existed)


def _is_ours(a: Any) -> bool:
    """Whether a function is one of this package, whose modules hold no tensors."""
    return isinstance(a, types.FunctionType) and a.__code__.co_filename.startswith(PACKAGE)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _with(a: Any, others: dict[int, Tensor]) -> Any:
    """The same function, value or nest with other tensors in the place of some that it knows."""
    if isinstance(a, Tensor):
        return others.get(id(a), a)
    if a.__class__ in (list, tuple):
        made = [_with(b, others) for b in a]
        return a if all([b is c for b, c in zip(a, made)]) else a.__class__(made)
    if a.__class__ is dict:
        held = {key: _with(b, others) for key, b in a.items()}
        return a if all([a[key] is c for key, c in held.items()]) else held
    if a.__class__ is not types.FunctionType or not others:
        return a
    cells = [types.CellType(_with(c.cell_contents, others)) if _is_filled(c) else c for c in a.__closure__ or ()]
    if all([not _is_filled(c) or c.cell_contents is d.cell_contents for c, d in zip(a.__closure__ or (), cells)]):
        return a
    made_of = types.FunctionType(a.__code__, a.__globals__, a.__name__, a.__defaults__, tuple(cells))
    made_of.__kwdefaults__ = a.__kwdefaults__
    return made_of


class Hooked:
    """Calls a hook of gradients in a backward program; gives those that are to be used from then on, in memory of their own."""

    name = "hook"

    def __init__(self, hook: Callable[..., Any]):
        self.hook = hook

    def __call__(self, gradients: tuple[Any, ...], *more: Any) -> tuple[Any, ...]:
        changed = self.hook(gradients, *more)
        changed = gradients if changed is None else changed if isinstance(changed, tuple) else (changed,)
        given = tensors_in((gradients, more))
        made = [ops.zeros_like(g) if h is None and g is not None else h for g, h in zip(gradients, changed)]
        return tuple([ops.clone(g) if g is not None and any([_together(g, a) for a in given]) else g for g in made])


def tensors_in(a: Any) -> list[Tensor]:
    """The tensors in nested tuples, lists and dicts."""
    if isinstance(a, Tensor):
        return [a]
    if isinstance(a, (tuple, list)):
        return [t for b in a for t in tensors_in(b)]
    if a.__class__ is dict:
        return [t for b in a.values() for t in tensors_in(b)]
    return []
