"""`Function`: operations with a derivative of the user's own."""

from __future__ import annotations

import contextlib
import functools
import inspect
import warnings
import weakref
from sys import getrefcount
from typing import Any

from .._core.state import BATCHED, CAPTURE, DUAL, GRAD, local, modes
from .._tensor import MADE_IN_FUNCTION, Tensor, bump, detached, version_of, wrap
from . import engine
from .function_tangents import transposed_jvp
from .node import Node, SavedOutput, SeenNode, class_named, is_leaf

_new = object.__new__


class FunctionCtx:
    """What `forward` leaves for `backward`."""

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keeps inputs or outputs; writing to one of them before backward is then an error."""
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keeps tensors for `jvp`."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise AssertionError(
                    "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes on ctx."
                )
        self._saved_for_forward = tensors

    def mark_shared_storage(self, *pairs: Any) -> None:
        """Does nothing: what shares memory is known without it."""

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
        if self._replaced_saved is not None:
            return self._replaced_saved
        node = self._node
        if node is None:
            return tuple(getattr(self, "_to_save", ()))
        if node.saved is None:
            raise RuntimeError(engine.FREED)
        return tuple(_restore(node, s, v) for s, v in zip(node.saved, node.versions))

    @property
    def saved_for_forward(self) -> tuple[Any, ...] | None:
        """What `save_for_forward` kept, for `jvp`; None if that was nothing."""
        if not self._saved_for_forward:
            return None
        return self._saved_for_forward if self._replaced_saved is None else self._replaced_saved

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    _dirty: Any = ()
    _non_differentiable: Any = ()
    _materialize = True
    _materialize_non_diff_grads = True
    _node: Any = None
    _saved_for_forward: Any = ()
    _replaced_saved: Any = None  # what `saved_tensors` gives while `jvp` runs, or for a sample of a batch
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

    home = "torch.autograd.function."  # of the nodes, as they show themselves

    def __init__(self, function: type[Function]):
        self.function = function
        self.name = function.__name__
        self.backward_name = function.__name__ + "Backward"

    def call(self, node: Node, gradients: list[Any]) -> Any:
        """What the user's `backward` gives; `vjp` is another name of it."""
        function, ctx = self.function, node.__dict__["ctx"]
        if function.vjp is Function.vjp:
            own = function.backward
        elif function.backward is Function.backward:
            own = function.vjp
        else:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement "
                "one of them."
            )
        held = getrefcount(ctx)
        made = own(ctx, gradients) if function.boxed_grads_call else own(ctx, *gradients)
        if getrefcount(ctx) > held:  # `backward` keeps its ctx, which may outlive the graph: so does what it saved
            ctx.__dict__["_kept_node"] = node
        return made

    def backward(self, node: Node, g: Any, create_graph: bool) -> Any:
        ctx = node.__dict__["ctx"]
        # a boxed function gets the engine's own list, so that what it takes out is held by nobody else
        gradients = g if self.function.boxed_grads_call and not node.hooks else [g] if node.outputs is None else list(g)
        if ctx._materialize:
            for i, info in enumerate(node.__dict__["output_info"]):
                if gradients[i] is None and info is not None:
                    gradients[i] = engine.zeros(*info)
        if local.forward_reading:
            if self.function.jvp is Function.jvp:
                raise NotImplementedError(
                    "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
                )
            return transposed_jvp(node, gradients)
        results = self.call(node, gradients)
        results = results if isinstance(results, (tuple, list)) else (results,)
        positions = node.__dict__["positions"]
        count = node.__dict__["argument_count"]
        if len(results) > count and all(r is None for r in results[count:]):
            results = results[:count]
        if len(results) != count:
            raise RuntimeError(
                f"function {self.backward_name} returned an incorrect number of gradients (expected {count}, got {len(results)})"
            )
        chosen: list[Any] = [None] * len(positions)
        for i, r in enumerate(results):
            if r is None:
                continue
            if i not in positions:
                raise RuntimeError(
                    f"function {self.backward_name} returned a gradient different than None at position {i + 1}, but the "
                    "corresponding forward input was not a Variable"
                )
            if not isinstance(r, Tensor):
                raise RuntimeError(f"expected Variable or None (got {type(r).__name__}) as gradient {i}")
            place = positions.index(i)
            # hooks see what needs no gradient, too
            edge = node.edges[place]
            chosen[place] = r if edge is None else _fitted(r, _leaf_info(edge, node.info[place]), self.backward_name, i)
        return chosen


def _leaf_info(edge: Any, info: Any) -> Any:
    """Shape and dtype of a gradient: a leaf may want another dtype than its own (`grad_dtype`), None for any."""
    meta = edge[0]._autograd_meta if isinstance(edge[0], Tensor) else None
    return info if meta is None or "grad_dtype" not in meta.__dict__ else (info[0], meta.__dict__["grad_dtype"])


def _fitted(g: Tensor, info: Any, name: str, position: int) -> Tensor:
    shape, d = tuple(info[0]), info[1] or g.dtype
    own = tuple(g._array.shape)
    if own != shape:
        last = own[len(own) - len(shape) :]
        if len(own) < len(shape) or any(n != m and n != 1 for n, m in zip(shape, last)):
            raise RuntimeError(
                f"Function {name} returned an invalid gradient at index {position} - got {list(own)} but expected shape "
                f"compatible with {list(shape)}"
            )
    return g if own == shape and g.dtype is d else fit_gradient(g, shape, d)


def differentiable_outputs(ctx: Any, outs: list[Any]) -> list[bool]:
    hidden = {id(t) for t in ctx._non_differentiable}
    return [isinstance(t, Tensor) and id(t) not in hidden and t.dtype.category >= 2 for t in outs]


forward_mode: Any = None  # set by forward mode: a Function of tensors that have tangents
fit_gradient: Any = None  # set by the ops layer
rewrite_history: Any = None
check_view: Any = None
view_as_self: Any = None


_OF_NODES = {
    "_input_metadata", "_register_hook_dict", "_sequence_nr", "_set_sequence_nr", "metadata", "name", "next_functions",
    "register_hook", "register_prehook",
}  # fmt: skip


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
    boxed_grads_call = False  # whether `backward` gets one list of gradients, from which it may take them out
    _record: Any = None
    _backward_cls: Any = None  # the class that the nodes of its results show

    def __init_subclass__(cls, **named: Any):
        super().__init_subclass__(**named)
        cls._record = FunctionRecord(cls)
        cls._backward_cls = class_named(cls._record.backward_name)

    def __init__(self, *args: Any, **kwargs: Any):
        warnings.warn(
            f"{type(self).__name__} should not be instantiated. Methods on autograd functions are all static, so you should "
            "invoke them on the class itself: call .apply of the class.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **named: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated: make it a staticmethod and call the "
            "class with .apply"
        )

    def __getattr__(self, name: str) -> Any:
        """A ctx is its node to those who look: `next_functions`, `metadata`, `register_hook` and the like."""
        if name not in _OF_NODES:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        node = self._node
        if node is None:
            node = self.__dict__.setdefault("_kept_node", SeenNode(self._record, ()))
        return getattr(node, name)

    @staticmethod
    def forward(*args: Any, **named: Any) -> Any:
        """Computes the result from (ctx, inputs), or from the inputs alone if `setup_context` is defined."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Fills ctx after a `forward` that does not take one."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any, **named: Any) -> Any:
        """The gradients of the inputs from those of the outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any, **named: Any) -> Any:
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any, **named: Any) -> Any:
        raise NotImplementedError(
            "To use autograd.Function with vmap, define its vmap static method or generate_vmap_rule = True."
        )

    @classmethod
    def apply(cls, *args: Any, **named: Any) -> Any:
        """Runs `forward` without recording it and attaches the derivative to its results."""
        separate = cls.setup_context is not Function.setup_context
        if separate:
            args, named = _bound(cls.forward, args, named)
        elif named:  # tensors given by name have gradients, too
            with contextlib.suppress(TypeError):  # what does not fit, `forward` says itself
                (_, *given), named = _bound(cls.forward, (None, *args), named)
                args = tuple(given)
        dual = local.duals and any(isinstance(a, Tensor) and a._k & DUAL for a in args)
        if dual and not local.transforms and not any(isinstance(a, Tensor) and a._k & BATCHED for a in args):
            return forward_mode(cls, args, named, separate)
        if local.batches or local.transforms:
            if not separate and not cls._transformable:
                raise RuntimeError(
                    "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it "
                    f"must override the setup_context staticmethod: {cls.__name__} does not."
                )
            if local.batches and not cls._opened:
                taken = on_batches(cls, args, named)
                if taken is not NotImplemented:
                    return taken
        if dual:
            return forward_mode(cls, args, named, separate)
        if modes.on & CAPTURE and local.captures and local.captures[-1].detaches and local.grad:
            if any([isinstance(a, Tensor) and a._k & GRAD for a in args]):
                return local.captures[-1].applied(cls.apply, args, named)
        made, ctx, _ = cls._run(args, named, separate)
        if ctx._dirty:  # their history leads to the node, and the node to its ctx: that would be a circle
            ctx._dirty = ()
        return made

    @classmethod
    def _run(cls, args: tuple[Any, ...], named: dict[str, Any], separate: bool) -> tuple[Any, Any, list[Any]]:
        """What `apply` gives; the ctx, and the outputs as `forward` returned them."""
        ctx = _new(cls)
        tensors = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        tracked = local.grad and any(args[i]._k & GRAD for i in tensors)
        ctx.needs_input_grad = tuple(bool(isinstance(a, Tensor) and a._k & GRAD) for a in args)
        outer = local.grad, local.forward_grad
        local.grad = local.forward_grad = False
        try:
            if separate:
                output = cls.forward(*args, **named)
                cls.setup_context(ctx, args, output)
            else:
                output = cls.forward(ctx, *args, **named)
        finally:
            local.grad, local.forward_grad = outer
        outs = list(output) if isinstance(output, tuple) else [output]
        _check_marks(ctx, outs)
        for t in ctx._dirty:  # `forward` may have written in ways that do not count
            bump(t)
        if separate:
            _check_saved_inputs(ctx, args, outs)
        made = _attach(cls, ctx, args, tensors, outs, output) if tracked else _unattached(args, ctx, outs)
        return (tuple(made) if isinstance(output, tuple) else made[0]), ctx, outs

    _opened = False  # whether whoever applies it has opened batches before
    _transformable = False  # whether it may be used inside transforms without `setup_context`


on_batches: Any = None  # set by `func`: a Function of batched tensors


_signature = functools.lru_cache(1024)(inspect.signature)


def _bound(forward: Any, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of `forward` in order, defaults filled in."""
    bound = _signature(forward).bind(*args, **named)
    bound.apply_defaults()
    return bound.args, bound.kwargs


def _check_marks(ctx: FunctionCtx, outs: list[Any]) -> None:
    for t in ctx._dirty:
        if not isinstance(t, Tensor):
            raise RuntimeError(f"mark_dirty can only accept variables, but got {type(t).__name__}")
        if not any(t is o for o in outs):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that are "
                "modified inplace must all be outputs of the Function."
            )
    for t in ctx._non_differentiable:
        if not isinstance(t, Tensor):
            raise RuntimeError(f"mark_non_differentiable only accepts variable arguments, but got {type(t).__name__}")


def _check_saved_inputs(ctx: FunctionCtx, args: Any, outs: list[Any]) -> None:
    """What was returned as it came becomes another tensor, which `setup_context` cannot know."""
    for t in (*getattr(ctx, "_to_save", ()), *ctx._saved_for_forward):
        if isinstance(t, Tensor) and any(t is a for a in args) and any(t is o for o in outs):
            if not any(t is d for d in ctx._dirty):
                raise RuntimeError(
                    "An input that has been returned as-is as output is being saved for backward or forward, which "
                    "`setup_context` cannot do: return and save x.view_as(x) instead."
                )


def _unattached(args: Any, ctx: FunctionCtx, outs: list[Any]) -> list[Any]:
    """Results without history; inputs that were returned as they were become other tensors over the same memory."""

    def own(t: Any) -> Any:
        if not isinstance(t, Tensor) or any(t is d for d in ctx._dirty):
            return t
        if any(t is a for a in args):
            return view_as_self(t)
        if t._view is not None and local.grad:
            t._view = (*t._view[:5], MADE_IN_FUNCTION, 0)
        return t

    return [own(t) for t in outs]


def _check_written(t: Tensor, is_input: bool, with_others: bool) -> None:
    """Raises if a result that was written in place may not have been."""
    if t._k & GRAD and is_leaf(t):
        raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation.")
    if t._view is None:
        return
    if not is_input:
        raise RuntimeError(
            "ctx.mark_dirty() received a tensor that was not an input. Only inputs that forward changed in place belong there."
        )
    if with_others:
        raise RuntimeError(
            "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot return more "
            "than one Tensor: give it a clone() of the view, or return the view alone."
        )
    check_view(t)


def _attach(cls: type[Function], ctx: Any, args: Any, positions: list[int], outs: list[Any], output: Any) -> list[Any]:
    several = isinstance(output, tuple)
    for i, t in enumerate(getattr(ctx, "_to_save", ())):
        if t is not None and not isinstance(t, Tensor):
            raise TypeError(
                f"save_for_backward can only save variables, but argument {i} is of type {type(t).__name__}"
            )
    node = Node(cls._record, tuple((args[i]._edge or (args[i], 0)) if args[i]._k & GRAD else None for i in positions))
    node.info = tuple((args[i]._array.shape, args[i].dtype) for i in positions)
    if local.transforms:
        node.label = f"{cls.__name__}GeneratedBackward"
    differentiable = differentiable_outputs(ctx, outs)
    dirty = {id(t) for t in ctx._dirty}
    inputs = {id(args[i]) for i in positions}
    made: list[Any] = []
    as_is = set()
    for number, t in enumerate(outs):
        first = next((i for i in range(number) if outs[i] is t), None) if differentiable[number] else None
        if first is not None and id(t) not in inputs:  # returned twice: one result
            t = made[first]
        elif differentiable[number]:
            if id(t) in dirty:
                _check_written(t, id(t) in inputs, len(outs) > 1)
                rewrite_history(t, (node, number))
            else:
                if id(t) in inputs or not is_leaf(t):
                    as_is.add(number)
                    t = view_as_self(t)
                t._edge = (node, number)
                t._k |= GRAD
        elif isinstance(t, Tensor) and id(t) in inputs:
            t = detached(t)
        made.append(t)
    if several or cls.boxed_grads_call:  # then the engine hands over a list
        node.outputs = tuple((t._array.shape, t.dtype, t._k & ~GRAD) if isinstance(t, Tensor) else None for t in made)
    node.__dict__.update(
        ctx=ctx, positions=positions, argument_count=len(args), differentiable=differentiable,
        output_info=[
            (t._array.shape, t.dtype, t._k & ~GRAD)
            if isinstance(t, Tensor) and (ctx._materialize_non_diff_grads or t._k & GRAD) else None
            for t in made
        ],
    )  # fmt: skip
    if as_is:  # writing to these in place would lose the derivative
        node.__dict__["as_is"] = as_is
    replaced = {id(old): (new, i) for i, (old, new) in enumerate(zip(outs, made)) if isinstance(old, Tensor)}
    saved: list[Any] = []
    for t in getattr(ctx, "_to_save", ()):
        if t is not None and id(t) in replaced and (id(t) not in inputs or id(t) in dirty):
            new, number = replaced[id(t)]
            if differentiable[number]:
                saved.append(SavedOutput(new, number))
                continue
        saved.append(t)
    ctx._to_save = ()
    if pack_saved is not None:
        saved = [pack_saved(s, node) for s in saved]
    node.saved = saved
    node.versions = [
        s.storage.version if isinstance(s, SavedOutput) else version_of(s) if isinstance(s, Tensor) else 0
        for s in saved
    ]
    ctx._node_reference = weakref.ref(node)
    return made


def _node_of(ctx: FunctionCtx) -> Any:
    reference = ctx.__dict__.get("_node_reference")
    return None if reference is None else reference() or ctx.__dict__.get("_kept_node")


FunctionCtx._node = property(_node_of)


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
        given = (results,) if single else results
        leaves = [wrap(r._array, r.dtype, r._k | GRAD) if isinstance(r, Tensor) else None for r in given]
        refusal = Node(_Refusal, tuple(None if r is None else (r, 0) for r in leaves))
        refusal.outputs = tuple(None if r is None else (r._array.shape, r.dtype, r._k & ~GRAD) for r in leaves)
        blocked = list(given)
        for i, r in enumerate(leaves):
            if r is not None:
                blocked[i] = wrap(r._array, r.dtype, r._k)
                blocked[i]._edge = (refusal, i)
        return blocked[0] if single else tuple(blocked)

    return backward


class InplaceFunction(Function):
    """An older name of `Function`, for those that write to their inputs."""

    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace


class _Refusal:
    name, backward_name = "once_differentiable", "torch::autograd::Error"

    @staticmethod
    def backward(node: Node, g: Any, create_graph: bool) -> Any:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")
