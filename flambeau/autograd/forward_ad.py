"""Forward-mode derivatives: tensors that carry a tangent.

The bit DUAL sends operations on such tensors here. An operation runs once, on inputs of its own; its tangent comes from
differentiating its backward pass, which is linear in the gradient it starts with. So every operation that can be
differentiated twice can be differentiated forward, whatever `no_grad` says, and the tangents can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import ref

from .._autograd import function_tangents, functions
from .._autograd.functions import Function
from .._autograd.modes import no_grad
from .._autograd.node import SavedOutput
from .._core.dtypes import FLOATING
from .._core.state import BATCHED, DISPATCH, DUAL, GRAD, META, OVERRIDE, POSTPONED, SPARSE, local
from .._dispatch import handlers, tensors_in
from .._ops.layout.striding import storage_bounds
from .._ops.records import inplace, tangents
from .._ops.records.pointwise_op import Pointwise
from .._ops.records.rewriting import replay
from .._ops.registry import ops
from .._tensor import Tensor, alias, computed, detached, inherited, meta_of, storage_of, version_of, wrap


class UnpackedDualTensor(NamedTuple):
    """A value and its tangent (None if it has none)."""

    primal: Tensor
    tangent: Tensor | None


class dual_level:
    """A block in which dual tensors live.

    >>> import flambeau as torch, flambeau.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0]))
    ...     fwAD.unpack_dual(x * x).tangent
    tensor([2., 0.])
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *error: Any) -> None:
        exit_dual_level()


def enter_dual_level() -> int:
    """Opens the level; there is one, whose number is 0."""
    if local.duals is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    local.duals = []
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Closes the level; its tangents are gone."""
    if local.duals is None or level not in (None, 0):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was entered, or does not exist."
        )
    duals, local.duals = local.duals, None
    for reference in duals:
        t = reference()
        if t is not None:
            t._k &= ~DUAL
            meta_of(t).tangent = None


def tangent_of(t: Tensor) -> Any:
    """The tangent of a tensor, or None."""
    return t._autograd_meta.tangent if t._k & DUAL else None  # type: ignore[union-attr]


def set_tangent(t: Tensor, tangent: Tensor | None) -> None:
    """Gives a tensor a tangent for as long as the level is open."""
    if tangent is not None and local.duals is not None:
        meta_of(t).tangent = tangent
        t._k |= DUAL
        local.duals.append(ref(t))


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A view of a tensor that carries a tangent."""
    if local.duals is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    if tensor.dtype.category < 2:
        raise ValueError(f"Expected primal to be floating point or complex, but got: {tensor.dtype}")
    if tangent.dtype.category < 2:
        raise ValueError(f"Expected tangent to be floating point or complex, but got: {tangent.dtype}")
    if tensor._array.shape != tangent._array.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor: "
            f"{list(tangent._array.shape)} for {list(tensor._array.shape)}. Expected tangent to have the same shape as the primal"
        )
    if tensor.dtype is not tangent.dtype:
        raise RuntimeError(
            f"Expected tangent to have the same dtype as the primal, but got {tangent.dtype} for {tensor.dtype}"
        )
    if tensor._k & DUAL:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level is not supported."
        )
    if tangent._k & DUAL:
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level is not supported."
        )
    dual: Tensor = ops.alias(tensor)
    set_tangent(dual, laid_out(tensor, tangent))
    return dual


def laid_out(t: Tensor, tangent: Tensor) -> Tensor:
    """A tangent in the layout of its tensor: itself, or a copy."""
    return tangent if _laid_alike(t, tangent) else _laid_as(t, tangent)


def _laid_alike(t: Tensor, other: Tensor) -> bool:
    """Whether every view of one is a view of the other: strides, place in memory, how it is read."""
    if (t._k ^ other._k) & POSTPONED:
        return False
    pairs = zip(t._array.shape, t._array.strides, other._array.strides)
    if (t._k | other._k) & (BATCHED | SPARSE | DISPATCH | META) or not t._array.size:
        return t._k & (SPARSE | DISPATCH) != 0 or all(a == b or n == 1 for n, a, b in pairs) or not t._array.size
    return all(a == b or n == 1 for n, a, b in pairs) and _room(t) == _room(other)


def _room(t: Tensor) -> tuple[int, int]:
    low, high = storage_bounds(t)
    return (high - low) // t._array.itemsize, ops.storage_offset(t)


def _laid_as(t: Tensor, tangent: Tensor) -> Tensor:
    """A copy of a tangent in the layout of its tensor."""
    if (t._k | tangent._k) & (BATCHED | SPARSE | DISPATCH | META):
        return ops.clone(tangent)
    size, offset = _room(t)
    with no_grad():
        whole = ops.new_zeros(computed(detached(tangent)), (size,))
        steps = [s // t._array.itemsize for s in t._array.strides]
        laid = detached(ops.as_strided(whole, t._array.shape, steps, offset))
        laid._k |= t._k & POSTPONED
    return ops.copy_(laid, tangent)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The value, as a view without tangent, and the tangent of a tensor."""
    if local.duals is None or not tensor._k & DUAL or not local.forward_grad:
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(_without_tangents(lambda: ops.view_as(tensor, tensor), [tensor]), tangent_of(tensor))


def _without_tangents(call: Callable[[], Any], duals: list[Tensor]) -> Any:
    for t in duals:
        t._k &= ~DUAL
    try:
        return call()
    finally:
        for t in duals:
            t._k |= DUAL


def _dispatch(op: Any, args: tuple[Any, ...], k: int) -> Any:
    """Runs a record on operands of which some have tangents."""
    if local.inference or not local.forward_grad:
        return _without_tangents(lambda: op(*args), [t for t in tensors_in(args) if t._k & DUAL])
    if not getattr(op, "view", False):
        return _by_record(op, args)
    parent = args[0]
    out = _without_tangents(lambda: op(*args), [parent])
    tangent = op(tangent_of(parent), *args[1:])  # a view of the tangent, so that writes reach it
    for t, part in zip(*[[made] if isinstance(made, Tensor) else made for made in (out, tangent)]):
        set_tangent(t, part)
    return out


def _by_record(op: Any, args: tuple[Any, ...]) -> Any:
    """Runs a record and gives its results the tangents that its rule says; without one, by differentiating twice."""
    if isinstance(op, Pointwise) and op.derived:
        return op.body(ops, *args)
    rule = op.tangent
    if rule is None:
        return _push(lambda *given: op(*given), args, op.name)
    if isinstance(rule, tangents.Composed):
        out = rule.formula(*args)
        return _push(lambda *given: op(*given), args, op.name) if out is NotImplemented else out
    duals, given = [], []
    for a in args:
        if isinstance(a, Tensor):
            given.append(tangent_of(a))
            if a._k & DUAL:
                duals.append(a)
        elif a.__class__ is list or a.__class__ is tuple:
            parts = [tangent_of(b) if isinstance(b, Tensor) else None for b in a]
            given.append(parts if any([p is not None for p in parts]) else None)
            duals += [b for b in a if isinstance(b, Tensor) and b._k & DUAL]
        else:
            given.append(None)
    for t in duals:
        t._k &= ~DUAL
    try:
        out = op(*args)
        if isinstance(out, Tensor) and out.dtype.category < FLOATING:
            return out
        made = rule(op, args, out, given)
        if made is not NotImplemented and isinstance(made, Tensor) and tangents.is_shared(made, given):
            made = ops.clone(made)
    finally:
        for t in duals:
            t._k |= DUAL
    if made is NotImplemented:
        return _push(lambda *again: op(*again), args, op.name)
    for t, tangent in zip(*[[m] if isinstance(m, Tensor) or m is None else m for m in (out, made)]):
        if tangent is not None and t.dtype.category >= FLOATING:
            set_tangent(t, tangent)
            if t._k & GRAD:
                _renew_saved(t)
    return out


def _push(call: Callable[..., Any], args: tuple[Any, ...], name: str) -> Any:
    """Runs a function of tensors and gives its results their tangents."""
    everything = tensors_in(args)
    duals = list({id(t): t for t in everything if t._k & DUAL}.values())
    given = [tangent_of(t) for t in duals]
    tracked = local.grad and any(t._k & GRAD for t in everything)
    create_graph = tracked or (local.grad and any(t._k & GRAD for t in given))
    outer, local.grad = local.grad, True
    try:
        fresh = [_input(t, tracked) for t in duals]
        places = {id(t): f for t, f in zip(duals, fresh)}
        out = call(*[_replaced(a, places) for a in args])
        made = [t for t in tensors_in((out,)) if not any(t is f for f in fresh)]
        found = [_with_memory_of_its_own(t, given) for t in jvp_of(made, fresh, given, create_graph)]
    except NotImplementedError as error:
        raise NotImplementedError(f"Trying to use forward AD with {name} that does not support it: {error}") from error
    finally:
        local.grad = outer
    for t, tangent in zip(made, found):
        if not tracked:
            t._edge = None
            t._k &= ~GRAD
        set_tangent(t, tangent)
        if tracked and tangent is not None:
            _renew_saved(t)
    if tracked:
        for t, f, tangent in zip(duals, fresh, given):
            f._k &= ~GRAD | t._k  # it was only for the tangent that its operation was recorded
            set_tangent(f, tangent)
    return out


def _with_memory_of_its_own(t: Tensor | None, others: list[Tensor]) -> Tensor | None:
    """A tangent that can be written to: a copy where the derivative handed on another one, or a view of it."""
    if t is None:
        return None
    if _values(t)._view is None and not any(t is other for other in others):
        return t
    return ops.clone(t)


def _values(t: Any) -> Tensor:
    """The tensor that holds all samples."""
    while t._k & BATCHED:
        t = t.value
    return t


def _input(t: Tensor, tracked: bool) -> Tensor:
    """The tensor without its tangent, as something to differentiate by."""
    if tracked and t._k & GRAD:
        return _without_tangents(lambda: ops.view_as(t, t), [t])
    f = wrap(t._array, t.dtype, t._k & ~(DUAL | OVERRIDE) | GRAD)
    f._storage, f._autograd_meta = storage_of(t), inherited(t)
    return f


def _replaced(a: Any, places: dict[int, Tensor]) -> Any:
    if isinstance(a, Tensor):
        return places.get(id(a), a)
    return type(a)([_replaced(b, places) for b in a]) if a.__class__ is list or a.__class__ is tuple else a


def _apply_function(function: type[Function], args: tuple[Any, ...], named: dict[str, Any], separate: bool) -> Any:
    """A custom Function of tensors with tangents: its own `jvp` is asked, not the operations inside."""
    duals = [a for a in args if isinstance(a, Tensor) and a._k & DUAL]
    if not local.forward_grad or local.inference:
        return _without_tangents(lambda: function.apply(*args, **named), duals)
    if any(isinstance(a, Tensor) and a._k & BATCHED for a in args):
        return _push(lambda *given: function.apply(*given, **named), args, function.__name__)
    tangents = [tangent_of(a) if isinstance(a, Tensor) else None for a in args]
    result, ctx, outs = _without_tangents(lambda: function._run(args, named, separate), duals)
    if ctx._materialize:
        for i, a in enumerate(args):
            if isinstance(a, Tensor) and tangents[i] is None and a.dtype.category >= 2:
                tangents[i] = ops.zeros_like(detached(a))
    differentiable = functions.differentiable_outputs(ctx, outs)
    versions = [0 if t is None else version_of(t) for t in tangents]
    made = _without_tangents(lambda: function_tangents.pushed(function, ctx, tangents, differentiable), duals)
    for t, out, tangent in zip(result if isinstance(result, tuple) else (result,), outs, made):
        if tangent is not None:
            _set_output_tangent(t, out, tangent, list(zip(args, tangents, versions)), ctx)
    return result


def _set_output_tangent(t: Tensor, out: Tensor, tangent: Tensor, inputs: list[Any], ctx: Any) -> None:
    """Gives the result of a Function its tangent, if that lies where it must: with the tangent of what `out` is part of."""
    dirty = any(out is d for d in ctx._dirty)
    base = _base(out)
    for a, given, version in inputs:
        if given is None or (out is not a and not (out._view is not None and _base(a) is base)):
            continue
        if dirty and (tangent is not given or version_of(given) == version):
            raise RuntimeError(
                "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is modifying "
                "an input inplace, then the jvp function must modify the corresponding gradient inplace."
            )
        if not dirty and tangent._view is None:
            raise RuntimeError(
                "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view."
            )
        if not dirty and _base(tangent) is not _base(given):
            whose = "the given grad input" if given._view is None else "the same base as the given grad input"
            raise RuntimeError(f"A custom Function is returning a view but the jvp is not returning a view of {whose}.")
        break
    if tangent._array.shape != t._array.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor: "
            f"{list(tangent._array.shape)} for {list(t._array.shape)}."
        )
    set_tangent(t, tangent)
    _renew_saved(t)


def _base(t: Tensor) -> Tensor:
    while t._view is not None:
        t = t._view[0]
    return t


def _renew_saved(t: Tensor) -> None:
    """A backward pass that is differentiated forward needs the tangents of what was saved."""
    edge = t._edge
    if edge is not None and edge[0].saved:
        node, number = edge
        node.saved = [alias(t) if s.__class__ is SavedOutput and s.number == number else s for s in node.saved]


def write_tangent(t: Tensor, tangent: Tensor | None) -> None:
    """After an in-place operation: the tangent of the value written, None if it has none."""
    outer, local.transforms = local.transforms, ()  # which ask whose memory is written; this is nobody's doing
    try:
        _write_tangent(t, tangent)
    finally:
        local.transforms = outer


def _write_tangent(t: Tensor, tangent: Tensor | None) -> None:
    own = tangent_of(t)
    if own is None and tangent is None:
        return
    if own is not None and not (own._k & GRAD and _values(own)._edge is None and local.grad):
        ops.zero_(own) if tangent is None else ops.copy_(own, tangent)
        if own._k & BATCHED:
            _tell_of_history(t)
        return
    tangent = ops.zeros_like(detached(own)) if tangent is None else ops.clone(tangent)
    if t._view is None or own is not None:
        set_tangent(t, tangent)
        _share_with_views(t, tangent)
        return
    chain, base = _way_from_base(t)
    whole = tangent_of(base)
    if whole is None:
        if base._array.shape == t._array.shape and _laid_alike(detached(base), detached(t)):
            tangent = laid_out(detached(base), tangent)
            set_tangent(base, tangent)  # the view is all of it
            set_tangent(t, tangent)
            _share_with_views(base, tangent)
            return
        like = detached(base)
        whole = ops.new_zeros(tangent, like._array.shape) if tangent._k & BATCHED else ops.zeros_like(like)
        set_tangent(base, whole)
    part = replay(chain, whole)
    ops.copy_(part, tangent)
    set_tangent(t, part)
    _share_with_views(base, whole)


def _tell_of_history(t: Tensor) -> None:
    """Batched tangents of a tensor and its views learn what history a write to one of them gave their values."""
    base = _base(t)
    views = [view() for view in base._storage.views or ()] if base._storage is not None else []
    for owner in (base, *views):
        tangent: Any = None if owner is None else tangent_of(owner)
        stacks = []
        while tangent is not None and tangent._k & BATCHED:
            stacks.append(tangent)
            tangent = tangent.value
        for stack in reversed(stacks):
            stack.refresh()


def _way_from_base(t: Tensor) -> tuple[list[Any], Tensor]:
    """How a view is taken from its base, and that base."""
    chain = []
    while t._view is not None:
        chain.append(t._view[1:4])
        t = t._view[0]
    return chain[::-1], t


def _share_with_views(base: Tensor, whole: Tensor) -> None:
    """Gives the views that were taken of a tensor before it had a tangent their parts of it."""
    for reference in () if base._storage is None else base._storage.views or ():
        view = reference()
        if view is not None and view is not base and tangent_of(view) is None:
            chain, origin = _way_from_base(view)
            if origin is base:
                set_tangent(view, replay(chain, whole))


handlers[DUAL] = _dispatch
functions.forward_mode = _apply_function
tangents.set_tangent = set_tangent
inplace.write_tangent = lambda t, result: write_tangent(t, tangent_of(result) if result is not None else None)


def jvp_of(
    outputs: list[Tensor], inputs: list[Tensor], tangents: list[Tensor], create_graph: bool = False
) -> list[Any]:
    """Tangents of outputs: the derivative, by the cotangent, of the inner product of backward's result and `tangents`."""
    from . import grad

    outer, local.grad = local.grad, True
    results: list[Any] = []
    try:
        for out in outputs:
            if not out._k & GRAD:
                results.append(None)
                continue
            cotangent = ops.requires_grad_(ops.zeros_like(detached(out)))
            reading, local.forward_reading = local.forward_reading, True
            try:
                found = grad(out, inputs, cotangent, create_graph=True, allow_unused=True)
            finally:
                local.forward_reading = reading
            pairs = [(g, t) for g, t in zip(found, tangents) if g is not None and g._k & GRAD]
            if not pairs:
                results.append(None if all(g is None for g in found) else ops.zeros_like(detached(out)))
                continue
            tangent = grad(
                [g for g, _ in pairs], cotangent, [t for _, t in pairs], create_graph=create_graph, retain_graph=True,
                allow_unused=True,
            )[0]  # fmt: skip
            results.append(tangent)
    finally:
        local.grad = outer
    return results


def _is_fwd_grad_enabled() -> bool:
    """Whether operations of this thread compute tangents."""
    return local.forward_grad


class _set_fwd_grad_enabled:
    """Whether operations compute tangents: at once, and as before at the end when used as a block."""

    def __init__(self, mode: bool):
        self.prev, local.forward_grad = local.forward_grad, bool(mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        local.forward_grad = self.prev


def __getattr__(name: str) -> Any:
    """`_current_level`: 0 while the level is open, otherwise -1."""
    if name == "_current_level":
        return -1 if local.duals is None else 0
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]
