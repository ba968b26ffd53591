"""`Function`: operations with a derivative of the user's own."""

from __future__ import annotations

import functools
from typing import Any

from .._core.state import GRAD, local
from .._tensor import Tensor, detached, version_of, wrap
from . import engine
from .node import Node, SavedOutput


class FunctionCtx:
    """What `forward` leaves for `backward`."""

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keeps inputs or outputs; writing to one of them before backward is then an error."""
        self._to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        self._saved_for_forward = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Says which inputs were changed in place."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Says which outputs have no derivative."""
        self._non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether missing gradients come as zeros (the default) or None."""
        self._materialize = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        node = self._node
        if node is None:
            return tuple(getattr(self, "_to_save", ()))
        if node.saved is None:
            raise RuntimeError(
                "Trying to backward through the graph a second time: the saved tensors are freed; "
                "pass retain_graph=True to keep them"
            )
        return tuple(_restore(node, s, v) for s, v in zip(node.saved, node.versions))

    saved_variables = saved_tensors
    _dirty: Any = ()
    _non_differentiable: Any = ()
    _materialize = True
    _node: Any = None
    needs_input_grad: tuple[bool, ...] = ()


def _restore(node: Node, saved: Any, version: int) -> Any:
    if hasattr(saved, "unpack"):
        return restore_packed(node, saved)
    storage = saved.storage if isinstance(saved, SavedOutput) else getattr(saved, "_storage", None)
    if storage is not None and storage.version != version:
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"saved for {node.name()} at version {version}, now at version {storage.version}"
        )
    return saved.tensor(node) if isinstance(saved, SavedOutput) else saved


restore_packed: Any = None  # set by the ops layer: a saved tensor that went through a pack hook
pack_saved: Any = None


class BackwardFunction(Node):
    """The node of a user's function; it is also the `ctx` that `backward` gets, through delegation."""

    __slots__ = ()


class FunctionRecord:
    """Stands where an op's record stands, for one class of Function."""

    def __init__(self, function: type[Function]):
        self.function = function
        self.name = function.__name__
        self.backward_name = function.__name__ + "Backward"

    def backward(self, node: Node, g: Any, create_graph: bool) -> Any:
        ctx = node.__dict__["ctx"]
        gradients = [g] if node.outputs is None else list(g)
        outputs = node.__dict__["output_info"]
        if ctx._materialize:
            gradients = [
                engine.zeros(*info) if part is None and info is not None else part
                for part, info in zip(gradients, outputs)
            ]
        function = self.function  # `vjp` is another name of `backward`
        results = (function.backward if function.vjp is Function.vjp else function.vjp)(ctx, *gradients)
        results = results if isinstance(results, (tuple, list)) else (results,)
        positions = node.__dict__["positions"]
        count = node.__dict__["argument_count"]
        if len(results) != count:
            if len(results) > count and all(r is None for r in results[count:]):
                results = results[:count]
            else:
                raise RuntimeError(
                    f"function {self.backward_name} returned an incorrect number of gradients (expected {count}, got {len(results)})"
                )
        chosen = []
        for i, edge in zip(positions, node.edges):
            r = results[i]
            if r is not None and not isinstance(r, Tensor):
                raise RuntimeError(
                    f"function {self.backward_name}: expected a Tensor or None as gradient {i}, got {type(r).__name__}"
                )
            info = node.info[positions.index(i)]  # type: ignore[index]
            if r is not None and edge is not None:
                r = _fitted(r, info, self.backward_name, i)
            chosen.append(r)
        return chosen


def _fitted(g: Tensor, info: Any, name: str, position: int) -> Tensor:
    shape, d = info
    if tuple(g._array.shape) != tuple(shape):
        try:
            return fit_gradient(g, shape, d)
        except Exception:
            pass
        raise RuntimeError(
            f"Function {name} returned an invalid gradient at index {position}: shape {list(g._array.shape)} "
            f"does not fit {list(shape)}"
        )
    return g if g.dtype is d else fit_gradient(g, shape, d)


fit_gradient: Any = None  # set by the ops layer
rewrite_history: Any = None
view_as_self: Any = None


class Function(FunctionCtx):
    """Base of operations with their own derivative: static methods `forward` and `backward`, called by `apply`.

    >>> import flambeau as torch
    >>> class Round(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x.round()
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         return g
    >>> x = torch.tensor([1.4], requires_grad=True)
    >>> Round.apply(x).sum().backward(); x.grad
    tensor([1.])
    """

    generate_vmap_rule = False
    _record: Any = None

    def __init_subclass__(cls, **named: Any):
        super().__init_subclass__(**named)
        cls._record = FunctionRecord(cls)

    def __init__(self, *args: Any, **named: Any):
        pass

    def __call__(self, *args: Any, **named: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward: make it a staticmethod and call the class with .apply"
        )

    @staticmethod
    def forward(*args: Any, **named: Any) -> Any:
        """Computes the result from (ctx, inputs), or from the inputs alone if `setup_context` is defined."""
        raise NotImplementedError("autograd.Function: You must implement the forward function")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Fills ctx after a `forward` that does not take one."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of the inputs from those of the outputs."""
        raise NotImplementedError(
            "autograd.Function: You must implement either the backward or vjp method to differentiate it"
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        raise NotImplementedError("autograd.Function: You must implement the jvp function to use it in forward mode")

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        raise NotImplementedError(
            "To use autograd.Function with vmap, define its vmap static method or generate_vmap_rule = True."
        )

    @classmethod
    def apply(cls, *args: Any, **named: Any) -> Any:
        """Runs `forward` without recording it and attaches the derivative to its results."""
        ctx = cls()
        tensors = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        tracked = local.grad and any(args[i]._k & GRAD for i in tensors)
        ctx.needs_input_grad = tuple(bool(isinstance(a, Tensor) and a._k & GRAD) for a in args)
        separate = cls.setup_context is not Function.setup_context
        outer, local.grad = local.grad, False
        try:
            if separate:
                output = cls.forward(*args, **named)
                cls.setup_context(ctx, args, output)
            else:
                output = cls.forward(ctx, *args, **named)
        finally:
            local.grad = outer
        if not tracked:
            return output
        return _attach(cls, ctx, args, tensors, output)


def _attach(cls: type[Function], ctx: Any, args: Any, positions: list[int], output: Any) -> Any:
    several = isinstance(output, (tuple, list))
    outs = list(output) if several else [output]
    node = Node(cls._record, tuple((args[i]._edge or (args[i], 0)) if args[i]._k & GRAD else None for i in positions))
    node.info = tuple((args[i]._array.shape, args[i].dtype) for i in positions)
    hidden = {id(t) for t in ctx._non_differentiable}
    dirty = {id(t) for t in ctx._dirty}
    inputs = {id(args[i]) for i in positions}
    made = []
    as_is = set()
    for number, t in enumerate(outs):
        if isinstance(t, Tensor) and id(t) not in hidden and t.dtype.category >= 2:
            if id(t) in dirty:
                if t._k & GRAD and t._edge is None:
                    raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
                rewrite_history(t, (node, number))
            else:
                if id(t) in inputs or t._edge is not None:
                    as_is.add(number)
                    t = view_as_self(t)
                t._edge = (node, number)
                t._k |= GRAD
        elif isinstance(t, Tensor) and id(t) in inputs:
            t = detached(t)
        made.append(t)
    if several:
        node.outputs = tuple((t._array.shape, t.dtype, t._k & ~GRAD) if isinstance(t, Tensor) else None for t in made)
    node.__dict__.update(
        ctx=ctx, positions=positions, argument_count=len(args),
        output_info=[(t._array.shape, t.dtype, t._k & ~GRAD) if isinstance(t, Tensor) else None for t in made],
    )  # fmt: skip
    if as_is:  # writing to these in place would lose the derivative
        node.__dict__["as_is"] = as_is
    replaced = {id(old): (new, i) for i, (old, new) in enumerate(zip(outs, made)) if isinstance(old, Tensor)}
    saved: list[Any] = []
    for t in getattr(ctx, "_to_save", ()):
        if t is not None and id(t) in replaced and id(t) not in inputs:
            new, number = replaced[id(t)]
            if new._edge is not None and new._edge[0] is node:
                saved.append(SavedOutput(new, number))
                continue
        saved.append(t)
    ctx._to_save = ()
    if pack_saved is not None:
        saved = [pack_saved(s) for s in saved]
    node.saved = saved
    node.versions = [
        s.storage.version if isinstance(s, SavedOutput) else version_of(s) if isinstance(s, Tensor) else 0
        for s in saved
    ]
    import weakref

    ctx._node_reference = weakref.ref(node)
    if not several:
        return made[0]
    return tuple(made) if isinstance(output, tuple) else made


FunctionCtx._node = property(  # type: ignore[assignment]
    lambda self: self.__dict__["_node_reference"]() if "_node_reference" in self.__dict__ else None
)


def once_differentiable(function: Any) -> Any:
    """Marks a `backward` whose result cannot be differentiated again: trying to raises."""

    @functools.wraps(function)
    def backward(ctx: Any, *gradients: Any) -> Any:
        outer, local.grad = local.grad, False
        try:
            results = function(ctx, *gradients)
        finally:
            local.grad = outer
        if not local.grad or not any(isinstance(g, Tensor) and g._k & GRAD for g in gradients):
            return results
        single = not isinstance(results, tuple)
        inputs = [g for g in gradients if isinstance(g, Tensor) and g._k & GRAD]
        blocked = []
        for r in (results,) if single else results:
            if isinstance(r, Tensor):
                r = wrap(r._array, r.dtype, r._k | GRAD)
                r._edge = (Node(_Refusal, tuple((g._edge or (g, 0)) for g in inputs)), 0)
            blocked.append(r)
        return blocked[0] if single else tuple(blocked)

    return backward


class _Refusal:
    name = backward_name = "once_differentiable"

    @staticmethod
    def backward(node: Node, g: Any, create_graph: bool) -> Any:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")
