"""`autograd.Function` inside `vmap`: by the rule its author gave, or by one that is made from its methods."""

from __future__ import annotations

from typing import Any, NamedTuple

from .._autograd import functions
from .._autograd.functions import Function
from .._core.state import local
from .._ops.registry import ops
from .._tensor import Tensor
from ..utils._pytree import broadcast_prefix, tree_flatten, tree_unflatten
from .batched import batch_size, deepest, opened, rewrapped, unwrap


class VmapInfo(NamedTuple):
    """What a Function's `vmap` is told of the batch."""

    batch_size: int
    randomness: str


def _on_batches(cls: type[Function], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """`cls.apply` inside vmap; NotImplemented if no argument is batched."""
    own = cls.vmap is not Function.vmap
    if own and cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overridden vmap "
            "staticmethod: set generate_vmap_rule=False or delete the method."
        )
    if not own and not cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support: override the vmap staticmethod or "
            "set generate_vmap_rule=True."
        )
    level = deepest(args)
    if any(isinstance(value, Tensor) for value in named.values()):
        raise NotImplementedError(
            f"{cls.__name__}: kwarg-only Tensor args are not supported inside vmap; pass them in order"
        )
    if not level:
        return NotImplemented
    before = local.batches
    randomness = next((r for n, _, r in before if n == level), "error")
    info = VmapInfo(batch_size(args, level), randomness)
    flat, spec = tree_flatten(args)
    pairs = [unwrap(a, level) for a in flat]
    values = tree_unflatten([v for v, _ in pairs], spec)
    dims = tree_unflatten([d for _, d in pairs], spec)
    local.batches = tuple(entry for entry in before if entry[0] != level)
    try:
        if own:
            returned = cls.vmap(info, tuple(dims), *values, **named)
            if not isinstance(returned, tuple) or len(returned) != 2:
                raise RuntimeError(
                    "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure "
                    f"compatible with the output. Got a {type(returned)} instead"
                )
        else:
            returned = _generated(cls, info, tuple(dims), values, named)
    finally:
        local.batches = before
    output, out_dims = returned
    outs, out_spec = tree_flatten(output)
    try:
        places = broadcast_prefix(out_dims, output) if own else out_dims
    except ValueError:
        raise RuntimeError(
            f"The vmap staticmethod of {cls.__name__} returned an incompatible (output, out_dims) pair: expected out_dims "
            f"to have the structure of output. output has structure {out_spec}, out_dims={out_dims}."
        ) from None
    return tree_unflatten([rewrapped(t, d, level) for t, d in zip(outs, places)], out_spec)


# -- the rule that is made ---------------------------------------------------------------------------------------


def _generated(cls: type[Function], info: VmapInfo, in_dims: Any, values: Any, named: Any) -> tuple[Any, Any]:
    """Output and its batch dimensions of a Function whose methods are those of `cls`, each mapped over the samples."""
    separate = cls.setup_context is not Function.setup_context
    place: dict[str, Any] = {}  # where the batch is in outputs and saved tensors, known once forward has run

    def inside(ctx: Any, saved: tuple[Any, ...], dims: Any, level: int) -> Any:
        inner = ctx.inner
        inner._replaced_saved = tuple(rewrapped(t, d, level) for t, d in zip(saved, dims))
        return inner

    def forward(ctx: Any, *given: Any, **more: Any) -> Any:
        inner = ctx.inner = object.__new__(cls)  # its ctx
        inner.needs_input_grad = ctx.needs_input_grad
        with opened(*info) as level:
            flat, spec = tree_flatten(given)
            places, _ = tree_flatten(in_dims, is_leaf=lambda d: d is None)
            samples = tree_unflatten([rewrapped(a, d, level) for a, d in zip(flat, places)], spec)
            place["shapes"] = [s._array.shape if isinstance(s, Tensor) else None for s in samples]
            if separate:
                out = cls.forward(*samples, **more)
                cls.setup_context(inner, samples, out)
            else:
                out = cls.forward(inner, *samples, **more)
        swap = {id(s): g for s, g in zip(samples, given) if isinstance(s, Tensor)}

        def back(t: Any) -> tuple[Any, Any]:
            value, dim = unwrap(t, level)
            return swap.get(id(t), value), dim

        outs, place["spec"] = tree_flatten(out)
        pairs = [back(t) for t in outs]
        made = {id(t): v for t, (v, _) in zip(outs, pairs)}
        place["outs"] = [d for _, d in pairs]
        ctx.set_materialize_grads(inner._materialize)
        for marked, mark in ((inner._dirty, ctx.mark_dirty), (inner._non_differentiable, ctx.mark_non_differentiable)):
            mark(*[made.get(id(t), back(t)[0]) for t in marked])
        for kind, keep in (("_to_save", ctx.save_for_backward), ("_saved_for_forward", ctx.save_for_forward)):
            found = [back(t) if isinstance(t, Tensor) else (t, None) for t in getattr(inner, kind, ())]
            keep(*[made.get(id(t), v) for t, (v, _) in zip(getattr(inner, kind, ()), found)])
            place[kind] = [d for _, d in found]
        return tuple(v for v, _ in pairs)

    def run(ctx: Any, method: Any, kind: str, given: Any, dims: Any, wanted: Any) -> Any:
        saved = ctx.saved_tensors
        with opened(*info) as level:
            inner = inside(ctx, saved, place[kind], level)
            samples = [g if g is None else rewrapped(g, d, level) for g, d in zip(given, dims)]
            results = method(inner, *samples)
        results = results if isinstance(results, (tuple, list)) else (results,)
        return tuple(wanted(i, *unwrap(r, level)) for i, r in enumerate(results))

    def backward(ctx: Any, *gradients: Any) -> Any:
        method = cls.backward if cls.vjp is Function.vjp else cls.vjp

        def fitted(i: int, g: Any, dim: Any) -> Any:
            at = in_dims[i] if i < len(in_dims) else None
            return fit_gradient(g, dim, at, info.batch_size, place["shapes"][i]) if isinstance(g, Tensor) else g

        return run(ctx, method, "_to_save", gradients, place["outs"], fitted)

    def jvp(ctx: Any, *tangents: Any) -> Any:
        def fitted(i: int, t: Any, dim: Any) -> Any:
            at = place["outs"][i]
            return t if not isinstance(t, Tensor) or at is None else _with_batch(t, dim, at, info.batch_size)

        kind = "_saved_for_forward" if place.get("_saved_for_forward") else "_to_save"
        return run(ctx, cls.jvp, kind, tangents, in_dims, fitted)

    body: dict[str, Any] = {
        "forward": staticmethod(forward), "backward": staticmethod(backward), "generate_vmap_rule": True, "_transformable": True,
    }  # fmt: skip
    if cls.jvp is not Function.jvp:
        body["jvp"] = staticmethod(jvp)
    made = type(f"Vmapped{cls.__name__}", (Function,), body).apply(*values, **named)
    return tree_unflatten(list(made), place["spec"]), place["outs"]


def _with_batch(g: Tensor, dim: int | None, at: int, size: int) -> Tensor:
    """A result with its batch dimension at a place; repeated if it has none."""
    if dim is None:
        shape = list(g._array.shape)
        shape.insert(at, size)
        return ops.expand(ops.unsqueeze(g, at), shape)
    return g if dim == at else ops.movedim(g, dim, at)


def fit_gradient(g: Tensor, dim: int | None, at: int | None, size: int, shape: Any = None) -> Tensor:
    """A gradient whose batch is at `dim` with its batch where the input has it; summed over what the input has less of.

    `shape` is that of the input's samples, or None if the gradient's have it.
    """
    if at is None:  # what else it has more of, the engine sums
        return g if dim is None else ops.sum(g, dim)
    front = _with_batch(g, dim, 0, size)
    extra = 0 if shape is None else front._array.ndim - 1 - len(shape)
    if extra > 0:
        front = ops.sum(front, tuple(range(1, 1 + extra)))
    small = tuple(i for i, n in enumerate(shape or (), 1) if n == 1 != front._array.shape[i])
    if small:
        front = ops.sum(front, small, True)
    return front if at == 0 else ops.movedim(front, 0, at)


functions.on_batches = _on_batches

__all__ = ["VmapInfo", "fit_gradient"]
