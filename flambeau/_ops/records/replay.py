"""Derivatives of composites, taken where they are needed: how fused operations are differentiated more than once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..._autograd import engine
from ..._autograd.node import edge_of
from ..._core.state import CUDA, GRAD, META, local
from ..._tensor import Tensor, wrap
from ..registry import ops


def gradients(
    function: Callable[..., Any], tensors: Sequence[Any], cotangents: Sequence[Any], needs: Sequence[bool]
) -> list[Any]:
    """The gradients of `function` at `tensors` for cotangents of its results (None where nothing flows).

    They can be differentiated again if gradients are being recorded now.
    """
    again = local.grad
    outer, local.grad = local.grad, True
    try:
        taken = [_alias(t, again) if need else t for t, need in zip(tensors, needs)]
        outs = function(*taken)
        outs = outs if isinstance(outs, (tuple, list)) else (outs,)
        pairs = [
            (out, g) for out, g in zip(outs, cotangents)
            if isinstance(out, Tensor) and g is not None and edge_of(out) is not None
        ]  # fmt: skip
        wanted = [t for t, need in zip(taken, needs) if need]
        roots, given = [p[0] for p in pairs], [p[1] for p in pairs]
        found = engine.run(roots, given, again, again, wanted, into_leaves=False)
    finally:
        local.grad = outer
    results = []
    for t, need in zip(taken, needs):
        edge = edge_of(t) if need else None
        results.append(None if edge is None else found.get((id(edge[0]), edge[1])))
    return results


def replayed(formula: Callable[..., Any], tensors: int) -> Callable[..., Any]:
    """The derivative of an operation that `formula` writes with others, by its first `tensors` arguments."""

    def derivative(given: Any, *args: Any) -> list[Any]:
        static, needs = args[tensors:-1], args[-1]
        return gradients(lambda *own: formula(*own, *static), args[:tensors], given, needs)

    return derivative


def _alias(t: Tensor, again: bool) -> Tensor:
    """The same values as an input of their own: one tensor may be given twice."""
    if again and t._k & GRAD:
        return ops.view(t, t._array.shape)
    return wrap(t._array, t.dtype, t._k & (CUDA | META) | GRAD)


def second(
    function: Callable[..., Any], tensors: Sequence[Any], cotangent: Any, used: Sequence[bool], gs: Sequence[Any],
    needs: Sequence[bool],
) -> list[Any]:  # fmt: skip
    """Gradients by (cotangent, *tensors) of the gradients that `function` has by those `tensors` that are `used`."""

    def first(g: Any, *given: Any) -> list[Any]:
        return gradients(function, given, [g], used)

    return gradients(first, [cotangent, *tensors], gs, needs)
