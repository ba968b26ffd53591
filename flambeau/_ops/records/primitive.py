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

from ..._autograd.node import NOWHERE, Node, SavedOutput
from ..._core.config import memory_problem
from ..._core.dtypes import FLOATING, dtype, from_numpy_dtype
from ..._core.state import CUDA, GRAD, META, POSTPONED, SAVED_HOOKS, local, modes
from ..._dispatch import backend_of
from ..._tensor import (
    MADE_IN_INFERENCE,
    MADE_WITH_OTHERS,
    MADE_WITHOUT_GRAD,
    Tensor,
    inherited,
    is_inference,
    refuse_inference,
    storage_of,
)
from ..plans.sites import LONGEST_CHAIN, planned_call
from ..registry import NO_DERIVATIVE, derivative_name, no_derivative, parameter_names, records
from . import tangents
from .primitive_call import arrays_call, derivative, fitted, plain_call, single_backward, view_call, wrapped
from .replay import replayed
from .saved import pack, trace, versions_of
from .shape_rules import DataDependent

_new = object.__new__
_KEPT = CUDA | META  # properties that a result inherits


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
        backward_name: str | Callable[[Node], str] | None = None,
        differentiable: bool = True,
        batch: Callable[..., Any] | None = None,
        tangent: Any = None,
        formula: Callable[..., Any] | None = None,
        planned: bool = False,
        light: bool = False,
        refuses: str = "",
    ):
        self.refuses = refuses  # the one operand on which it depends whether it raises an error, where kernels find out nothing else
        self.light = light  # whether it takes little more time than to read its operands: programs may do it twice
        self.tangent = tangent  # how tangents go through it (see `tangents`); by its derivative without
        self.batch = batch  # how it runs on a whole batch (see `batching`); sample by sample without
        self.forward, self.tensors, self.many, self.view, self.meta = forward, tensors, many, view, meta
        self.name = name or forward.__name__.strip("_")
        if meta is None and not view:
            raise TypeError(f"{self.name}: a primitive needs a shape rule (`meta`), unless its result is a view")
        self.names = parameter_names(forward)[1:]
        own_uses = None
        if formula is not None:  # the operation written with others: what is not declared comes of it
            self.tangent = tangent or tangents.Composed(formula)
            if grad is None:
                grad, own_uses = replayed(formula, tensors), self._everything()
        self.differentiable = differentiable and grad is not None
        self.missing = differentiable and grad is None  # raises when differentiated
        named = NO_DERIVATIVE if self.missing else derivative_name(self.name)
        self.backward_name = backward_name or named
        self.grad = grad
        self.joint = callable(grad)  # one function gives the gradients of all inputs
        self.formulas: list[Any] = []
        if self.joint:
            self.formulas = [(grad, own_uses or self._uses(grad))]
        elif grad:
            self.formulas = [
                (grad[n], self._uses(grad[n])) if n in grad else None  # type: ignore[index, operator]
                for n in self.names[:tensors]
            ]
        # what the engine calls: (node, g) -> gradient, one for each formula
        self.derivatives: list[Any] = [None if f is None else derivative(self, *f) for f in self.formulas]
        self.plans: dict[int, Any] = {}  # by which arguments need a gradient: what to keep
        alone, plain = tensors == 1 and not many, type(self)
        short = not view and plain.compute is Primitive.compute
        if alone and not self.joint and self.derivatives and plain.backward is Primitive.backward:
            self.backward = single_backward(self)  # type: ignore[method-assign]
        self.call = (arrays_call if short else view_call if view and alone else plain_call)(self)
        self.call.__name__ = self.call.__qualname__ = self.name
        if planned:  # not only as a part of planned functions
            self.call = planned_call(self.call, self.names)
        records[self.name] = self

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    @property
    def __name__(self) -> str:
        """For classes and modes that take it over: they look at the names of what they are given."""
        return self.name

    def __call__(self, *args: Any) -> Any:
        return self.call(*args)

    def _everything(self) -> list[tuple[str, Any]]:
        """What a derivative gets that is made of a formula: the gradients, all arguments, and which of them need one."""
        return [("given", None), *[("value", i) for i in range(len(self.names))], ("needs", None)]

    def _uses(self, formula: Any) -> list[tuple[str, Any]]:
        """What a formula asks for, by its parameter names: (kind, argument position)."""
        uses: list[tuple[str, Any]] = []
        for name in parameter_names(formula):
            if name in ("g", "gs", "given", "out", "outs", "others", "needs"):
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
            given = [backend.number(a) if isinstance(a, np.ndarray) else a for a in given]
        try:
            made = self.forward(backend, *given, *args[n:])
        except (MemoryError, ValueError) as error:
            raise (memory_problem(error) or error) from None
        if self.view:
            parent = args[0]
            if isinstance(made, (tuple, list)):
                return tuple(self.wrap_view(parent, m, args[1:], i) for i, m in enumerate(made))
            return self.wrap_view(parent, made, args[1:])
        return wrapped(made, k & _KEPT)

    def wrap_view(self, parent: Tensor, array: Any, static: Any, number: Any = None) -> Tensor:
        t = _new(Tensor)
        t._array, t._k = array, parent._k & (_KEPT | POSTPONED)
        t.dtype = parent.dtype if array.dtype == parent.dtype.numpy else from_numpy_dtype(array.dtype)
        t._edge = None
        t._storage, t._autograd_meta = storage_of(parent), inherited(parent)
        t._view = None
        apart = self.missing or not self.differentiable  # nor are those of other bytes, which have no history
        if not apart and not (t._autograd_meta is not None and t._autograd_meta.inference):
            t._view = view_link(t, parent, self, static, number)
            if local.grad:
                t._storage.add_view(t)
            elif parent._k & GRAD and t.dtype.category >= FLOATING:
                t._edge = NOWHERE
                t._k |= GRAD
        return t

    def _compute_meta(self, args: tuple[Any, ...]) -> Any:
        from ..._backend.meta import empty_meta  # meta tensors are rare

        n = self.tensors
        given = [a._array if isinstance(a, Tensor) else a for a in args[:n]]
        if self.many:
            given[0] = [t._array if isinstance(t, Tensor) else t for t in given[0]]
        layout = getattr(self.forward, "layout", None)

        def array(about: Any, number: int = 0) -> Any:
            if not isinstance(about, tuple):
                return about
            if len(about) == 2 and layout is not None:
                about = (*about, layout(number, about[0], (*given, *args[n:])))
            return empty_meta(*about)

        try:
            made = self.meta(*given, *args[n:])  # type: ignore[misc]
        except DataDependent:
            raise DataDependent(
                f"aten::{self.name}: attempted to run this operator with Meta tensors, but the shape of its result depends "
                "on their elements, which they do not have"
            ) from None
        if isinstance(made, list) or (isinstance(made, tuple) and not isinstance(made[1], dtype)):
            return wrapped(tuple([array(m, i) for i, m in enumerate(made)]), META)
        return wrapped(array(made), META)

    # -- history -------------------------------------------------------------------------------

    def record(self, args: tuple[Any, ...], out: Any, traced: bool = False) -> None:
        """Attaches a node to the result(s), if an input needs a gradient and a result can have one."""
        if not (self.differentiable or self.missing):
            return
        if self.view and is_inference(args[0]):
            return
        if isinstance(out, Tensor):
            outs: Any = (out,)
            if out.dtype.category < 2:
                return
        else:
            outs = out
            if not any(isinstance(t, Tensor) and t.dtype.category >= 2 for t in outs):
                return
        inputs = (*args[0], *args[1 : self.tensors]) if self.many else args[: self.tensors]
        edges: list[Any] = []
        info: list[Any] = []
        mask, written = 0, False
        extra = len(inputs) - self.tensors if self.many else 0  # inputs before the last of the first argument's
        bit = 2 if extra < 0 else 1
        for t in inputs:
            edge = about = None
            if isinstance(t, Tensor):
                k = t._k
                about = (t._array.shape, t.dtype, k)
                if k & GRAD:
                    edge = t._edge or (t, 0)
                    mask |= bit
                if t._storage is not None and t._storage.version:
                    written = True
            info.append(about)
            edges.append(edge)
            if extra > 0:
                extra -= 1
            else:
                bit <<= 1
        if not mask:
            return
        node = Node(self, tuple(edges))
        node.info = info
        if outs is out:
            outputs: list[Any] = []
            for number, t in enumerate(outs):
                about = None
                if isinstance(t, Tensor):
                    about = (t._array.shape, t.dtype, t._k & _KEPT)
                    if t.dtype.category >= 2:
                        t._edge = (node, number)
                        t._k |= GRAD
                outputs.append(about)
            node.outputs = tuple(outputs)
        else:
            out._edge = (node, 0)
            out._k |= GRAD
        plan = self.plans.get(mask)
        if plan is None:
            plan = self.plans[mask] = self.plan(mask)
        self._save(node, args, outs, written, *plan)
        if traced:
            trace(node)

    def plan(self, mask: int) -> tuple[tuple[int, ...], bool, bool]:
        """For arguments of which those in `mask` need a gradient: which are not kept, and whether the first result and
        the others are."""
        used: set[int] = set()
        kinds: set[str] = set()
        for i, formula in enumerate(self.formulas):
            if formula is not None and (self.joint or mask >> i & 1):
                kinds.update(kind for kind, _ in formula[1])
                used.update(position for kind, position in formula[1] if kind == "value")
        dropped = tuple(i for i in range(self.tensors) if i not in used)
        every = "outs" in kinds
        return dropped, every or "out" in kinds, every or "others" in kinds

    def _save(
        self, node: Node, args: Any, outs: Any, written: bool, dropped: Any, keep_first: bool, keep_others: bool
    ) -> None:
        saved = list(args)
        for i in dropped:
            if _has_tensor(saved[i]):
                saved[i] = None
        if self.many and 0 not in dropped:
            saved[0] = list(args[0])
        for number, t in enumerate(outs):
            if (keep_others if number else keep_first) and isinstance(t, Tensor):
                written = written or t._storage is not None
                saved.append(SavedOutput(t, number))
            else:
                saved.append(None)
        if modes.inferred:
            refuse_inference(saved)
        if modes.on & SAVED_HOOKS and local.saved_hooks:
            saved = [pack(s, node) for s in saved]
        node.saved = saved
        node.versions = versions_of(saved) if written else None

    def backward(self, node: Node, g: Any, create_graph: bool) -> Any:
        if self.missing:
            raise no_derivative(self.name)
        info, edges = node.info, node.edges
        results: Any = []
        if self.joint:
            results = self.derivatives[0](node, g)
            results = results if isinstance(results, (tuple, list)) else [results]
        else:
            count = len(edges) - self.tensors + 1  # how many tensors the first argument stands for
            for i, formula in enumerate(self.derivatives):
                mine = edges[:count] if i == 0 else edges[i + count - 1 : i + count]
                if not any(mine):
                    results += [None] * len(mine)
                    continue
                if formula is None:
                    raise NotImplementedError(
                        f"the derivative for '{self.names[i]}' of '{self.name}' is not implemented."
                    )
                made = formula(node, g)
                if i == 0 and self.many:
                    results += made
                else:
                    results.append(made)
        return [r if r is None or e is None else fitted(r, i) for r, e, i in zip(results, edges, info)]


as_strided_link: Any = None  # set by `striding`: how a view is taken from its base directly


def view_link(t: Tensor, parent: Tensor, op: Any, static: Any, number: Any) -> tuple[Any, ...]:
    """What a view remembers (see `Tensor._view`).

    A loop of views of views must not keep them all: a long chain becomes one step from the base.
    """
    above = parent._view
    version = 0
    if not local.grad:
        made = MADE_IN_INFERENCE if local.inference else MADE_WITHOUT_GRAD
        version = storage_of(parent).version
    elif number is not None:
        made = MADE_WITH_OTHERS
    else:
        made = 0 if above is None else above[5]
        if made:
            version = above[6]
    if above is None:
        return (parent, op, static, number, 0, made, version)
    if above[4] >= LONGEST_CHAIN:
        base = parent
        while base._view is not None:
            base = base._view[0]
        if base.dtype is t.dtype:
            return (*as_strided_link(t, base), made, version)
    return (parent, op, static, number, above[4] + 1, made, version)


def _has_tensor(a: Any) -> bool:
    return isinstance(a, Tensor) or (isinstance(a, (list, tuple)) and any(isinstance(b, Tensor) for b in a))


def primitive(**options: Any) -> Callable[[Callable[..., Any]], Primitive]:
    """Declares a primitive."""
    return lambda forward: Primitive(forward, **options)
