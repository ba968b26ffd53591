"""Primitive records: operations written over arrays, with their derivatives over tensors.

    @primitive(grad={"x": lambda g, dim: ops.flip(ops.cumsum(ops.flip(g, dim), dim), dim)})
    def cumsum(backend, x, dim): ...

The function gets a backend and raw arrays. The parameter names of a derivative say what it needs: `g` (gradient
of the result), inputs by name, `out`, or only `<input>_shape` / `<input>_dtype`; they are read here, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._autograd import engine
from .._autograd.node import Node, SavedOutput
from .._backend.cpu import cpu
from .._core.dtypes import BY_NUMPY, dtype, from_numpy_dtype
from .._core.state import CUDA, GRAD, INFERENCE, META, SAVED_HOOKS, local, modes
from .._dispatch import backend_of, special
from .._tensor import Tensor, storage_of, wrap
from .registry import memory_problem, ops, parameter_names, records
from .saved import fetch, pack, trace, versions_of

_new = object.__new__
_KEPT = CUDA | META | INFERENCE  # properties that a result inherits


class Primitive:
    """One operation over arrays. Its first `tensors` arguments may be tensors (the very first a list, if `many`)."""

    def __init__(
        self,
        forward: Callable[..., Any],
        grad: dict[str, Callable[..., Any]] | Callable[..., Any] | None = None,
        tensors: int = 1,
        many: bool = False,
        view: bool = False,
        meta: Callable[..., Any] | None = None,
        name: str | None = None,
        backward_name: str | None = None,
        differentiable: bool = True,
    ):
        self.forward, self.tensors, self.many, self.view, self.meta = forward, tensors, many, view, meta
        self.name = name or forward.__name__.strip("_")
        self.names = parameter_names(forward)[1:]
        self.backward_name = backward_name or "".join(p.title() for p in self.name.split("_")) + "Backward0"
        self.differentiable = differentiable and grad is not None
        self.missing = differentiable and grad is None  # raises when differentiated
        self.grad = grad
        self.joint = callable(grad)  # one function gives the gradients of all inputs
        self.formulas: list[Any] = []
        if self.joint:
            self.formulas = [(grad, self._uses(grad))]
        elif grad:
            self.formulas = [
                (grad[n], self._uses(grad[n])) if n in grad else None  # type: ignore[index, operator]
                for n in self.names[:tensors]
            ]
        self.plans: dict[int, Any] = {}  # by which arguments need a gradient: what to keep
        self.call = view_call(self) if view and tensors == 1 and not many else plain_call(self)
        self.call.__name__ = self.call.__qualname__ = self.name
        records[self.name] = self

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def __call__(self, *args: Any) -> Any:
        return self.call(*args)

    def _uses(self, formula: Any) -> list[tuple[str, Any]]:
        """What a formula asks for, by its parameter names: (kind, argument position)."""
        uses: list[tuple[str, Any]] = []
        for name in parameter_names(formula):
            if name in ("g", "gs", "given", "out", "outs", "needs"):
                uses.append((name, None))
            elif name in self.names:
                uses.append(("value", self.names.index(name)))
            elif name.endswith("_shape") and name[:-6] in self.names:
                uses.append(("shape", self.names.index(name[:-6])))
            elif name.endswith("_dtype") and name[:-6] in self.names:
                uses.append(("dtype", self.names.index(name[:-6])))
            else:
                raise TypeError(f"{self.name}: its derivative asks for {name!r}, which it does not have")
        return uses

    # -- forward -------------------------------------------------------------------------------

    def compute(self, args: tuple[Any, ...], k: int) -> Any:
        """The result without history."""
        if k & META and not self.view:
            return self._compute_meta(args)
        n = self.tensors
        given = [a._array if isinstance(a, Tensor) else a for a in args[:n]]
        if self.many:
            given[0] = [t._array if isinstance(t, Tensor) else t for t in given[0]]
        backend = backend_of(k)
        if k & CUDA:  # a 0-d CPU tensor counts as a number
            given = [backend.from_numpy(a) if isinstance(a, np.ndarray) else a for a in given]
        try:
            made = self.forward(backend, *given, *args[n:])
        except (MemoryError, ValueError) as error:
            raise (memory_problem(error) or error) from None
        if self.view:
            parent = args[0]
            if isinstance(made, (tuple, list)):
                return tuple(self.wrap_view(parent, m, args[1:], i) for i, m in enumerate(made))
            return self.wrap_view(parent, made, args[1:])
        return _wrapped(made, k & _KEPT & ~INFERENCE)

    def wrap_view(self, parent: Tensor, array: Any, static: Any, number: Any = None) -> Tensor:
        t = _new(Tensor)
        t._array, t._k = array, parent._k & _KEPT
        t.dtype = parent.dtype if array.dtype == parent.dtype.numpy else from_numpy_dtype(array.dtype)
        t._edge = t._meta = None
        t._storage = storage_of(parent)
        t._view = view_link(t, parent, self, static, number)
        if local.grad:
            t._storage.add_view(t)
        return t

    def _compute_meta(self, args: tuple[Any, ...]) -> Any:
        from .._backend.meta import empty_meta, run_on_zeros  # meta tensors are rare

        n = self.tensors
        given = [a._array if isinstance(a, Tensor) else a for a in args[:n]]
        if self.many:
            given[0] = [t._array if isinstance(t, Tensor) else t for t in given[0]]
        if self.meta is None:
            made = run_on_zeros(self, given, args[n:])
        else:
            made = self.meta(*given, *args[n:])
            if isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], dtype):
                made = empty_meta(made[0], made[1])
            elif isinstance(made, (list, tuple)):
                made = type(made)(empty_meta(*m) for m in made)
        return _wrapped(made, META)

    # -- history -------------------------------------------------------------------------------

    def record(self, args: tuple[Any, ...], out: Any, traced: bool = False) -> None:
        """Attaches a node to the result(s), if an input needs a gradient and a result can have one."""
        if not (self.differentiable or self.missing):
            return
        single = isinstance(out, Tensor)
        outs = (out,) if single else out
        for t in outs:
            if isinstance(t, Tensor) and t.dtype.category >= 2:
                break
        else:
            return
        inputs = (*args[0], *args[1 : self.tensors]) if self.many else args[: self.tensors]
        edges: list[Any] = []
        info: list[Any] = []
        mask = 0
        extra = len(inputs) - self.tensors  # inputs that stand before the last of the first argument's
        for i, t in enumerate(inputs):
            if isinstance(t, Tensor):
                info.append((t._array.shape, t.dtype, t._k))
                if t._k & GRAD:
                    edges.append(t._edge or (t, 0))
                    mask |= 1 << max(i - extra, 0)
                    continue
            else:
                info.append(None)
            edges.append(None)
        if not mask:
            return
        node = Node(self, tuple(edges))
        node.info = info
        for number, t in enumerate(outs):
            if isinstance(t, Tensor) and t.dtype.category >= 2:
                t._edge = (node, number)
                t._k |= GRAD
        if not single:
            node.outputs = tuple((t._array.shape, t.dtype, t._k & _KEPT) if isinstance(t, Tensor) else None for t in outs)
        plan = self.plans.get(mask)
        if plan is None:
            plan = self.plans[mask] = self._plan(mask)
        self._save(node, args, outs, *plan)
        if traced:
            trace(node)

    def _plan(self, mask: int) -> tuple[tuple[bool, ...], bool, bool]:
        """What to keep when the arguments in `mask` need a gradient: which arguments, the first result, all results."""
        used: set[int] = set()
        kinds: set[str] = set()
        for i, formula in enumerate(self.formulas):
            if formula is not None and (self.joint or mask >> i & 1):
                kinds.update(kind for kind, _ in formula[1])
                used.update(position for kind, position in formula[1] if kind == "value")
        keep = tuple(i >= self.tensors or i in used for i in range(len(self.names)))
        return keep, "out" in kinds, "outs" in kinds

    def _save(self, node: Node, args: Any, outs: Any, keep: tuple[bool, ...], keep_out: bool, keep_all: bool) -> None:
        saved = [a if k or not _has_tensor(a) else None for a, k in zip(args, keep)]
        if self.many and keep[0]:
            saved[0] = list(args[0])
        for number, t in enumerate(outs):
            kept = (keep_all or (keep_out and number == 0)) and isinstance(t, Tensor)
            saved.append(SavedOutput(t, number) if kept else None)
        if modes.on & SAVED_HOOKS and local.saved_hooks:
            saved = [pack(s) for s in saved]
        node.saved = saved
        node.versions = versions_of(saved)

    def backward(self, node: Node, g: Any, create_graph: bool) -> Any:
        if self.missing:
            raise RuntimeError(f"derivative for {self.name} is not implemented")
        info, edges = node.info, node.edges
        if self.joint:
            formula, uses = self.formulas[0]
            results = formula(*[self._value(node, g, *use) for use in uses])
            results = results if isinstance(results, (tuple, list)) else [results]
        else:
            results = []
            count = len(edges) - self.tensors + 1  # how many tensors the first argument stands for
            for i, formula in enumerate(self.formulas):
                mine = edges[:count] if i == 0 else edges[i + count - 1 : i + count]
                if not any(mine):
                    results += [None] * len(mine)
                    continue
                if formula is None:
                    raise RuntimeError(f"derivative for {self.name} by {self.names[i]} is not implemented")
                made = formula[0](*[self._value(node, g, *use) for use in formula[1]])
                if i == 0 and self.many:
                    results += made
                else:
                    results.append(made)
        return [
            r if r is None or e is None or r.dtype is i[1] else ops.fit_gradient(r, i[0], i[1])
            for r, e, i in zip(results, edges, info)  # type: ignore[arg-type]
        ]

    def _value(self, node: Node, g: Any, kind: str, position: Any) -> Any:
        """One argument of a derivative."""
        if kind == "g":
            return g if node.outputs is None else _defined(g[0], node.outputs[0])
        if kind == "value":
            return fetch(node, position)
        if kind == "out":
            return fetch(node, len(self.names))
        if kind == "outs":
            return [fetch(node, i) for i in range(len(self.names), len(node.saved))]
        if kind == "gs":
            return [_defined(part, o) for part, o in zip(g, node.outputs)] if node.outputs else [g]
        if kind == "given":  # gradients of several results, None where none came
            return list(g)
        if kind == "needs":
            return [e is not None for e in node.edges]
        field = 0 if kind == "shape" else 1
        offset = len(node.info) - self.tensors  # type: ignore[arg-type]
        if position == 0 and self.many:
            return [i[field] for i in node.info[: offset + 1]]  # type: ignore[index]
        return node.info[position + offset][field]  # type: ignore[index]


_LONGEST_CHAIN = 32
as_strided_link: Any = None  # set by `striding`: how a view is taken from its base directly


def view_link(t: Tensor, parent: Tensor, op: Any, static: Any, number: Any) -> tuple[Any, ...]:
    """What a view remembers: (parent, op, arguments, which of several results, length of the chain of views).

    A loop of views of views must not keep them all: a long chain becomes one step from the base.
    """
    above = parent._view
    if above is None:
        return (parent, op, static, number, 0)
    if above[4] >= _LONGEST_CHAIN:
        base = parent
        while base._view is not None:
            base = base._view[0]
        if base.dtype is t.dtype and not t._k & CUDA:
            return as_strided_link(t, base)  # type: ignore[no-any-return]
    return (parent, op, static, number, above[4] + 1)


def _has_tensor(a: Any) -> bool:
    return isinstance(a, Tensor) or (isinstance(a, (list, tuple)) and any(isinstance(b, Tensor) for b in a))


def _defined(g: Any, output: Any) -> Any:
    """A gradient, zeros where none came."""
    if g is not None or output is None:
        return g
    return engine.zeros(*output) if output[1].category >= 2 else None


def _wrapped(made: Any, k: int) -> Any:
    if isinstance(made, tuple):
        return tuple(_wrapped(m, k) for m in made)
    if isinstance(made, list):
        return [_wrapped(m, k) for m in made]
    if made is None or (isinstance(made, (int, float, bool)) and not isinstance(made, np.generic)):
        return made
    if not hasattr(made, "strides") or isinstance(made, np.generic):
        made = np.asarray(made)
    d = BY_NUMPY.get(made.dtype)
    return wrap(made, d if d is not None else from_numpy_dtype(made.dtype), k)


def plain_call(op: Primitive) -> Callable[..., Any]:
    n, many = op.tensors, op.many

    def call(*args: Any) -> Any:
        k = modes.on
        for a in args[:n]:
            if isinstance(a, Tensor):
                k |= a._k
        if many:
            for a in args[0]:
                if isinstance(a, Tensor):
                    k |= a._k
        if k > 1:
            return special(op, args, k)
        out = op.compute(args, 0)
        if k and local.grad:
            op.record(args, out)
        return out

    return call


def view_call(op: Primitive) -> Callable[..., Any]:
    forward = op.forward
    def call(x: Tensor, *static: Any) -> Any:
        k = x._k | modes.on
        if k > 1:
            return special(op, (x, *static), k)
        try:
            made = forward(cpu, x._array, *static)
        except ValueError as error:
            raise (memory_problem(error) or error) from None
        if made.__class__ is tuple or made.__class__ is list:
            out: Any = tuple(op.wrap_view(x, m, static, i) for i, m in enumerate(made))
        else:
            out = op.wrap_view(x, made, static)
        if k and local.grad:
            op.record((x, *static), out)
        return out

    return call


def primitive(**options: Any) -> Callable[[Callable[..., Any]], Primitive]:
    """Declares a primitive."""
    return lambda forward: Primitive(forward, **options)
