"""The negative log-likelihood of plain CPU tensors by one kernel, with its gradient by another."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .._autograd.node import Node
from .._backend.cpu import cpu
from .._core.allocation import empty, zeros
from .._core.dtypes import BY_NUMPY, float32, float64, int64
from .._core.state import GRAD, local, modes
from .._kernel.likelihood import (
    likelihood_each,
    likelihood_each_gradient,
    likelihood_sum,
    likelihood_sum_gradient,
)
from .._tensor import Tensor, wrap
from .fused import Fused, record
from .replay import gradients
from .saved import fetch

_INT64 = np.dtype(np.int64)
_ONE = np.asarray(1.0)
formula: list[Callable[..., Any]] = []  # the same over tensors, for higher derivatives


@functools.cache
def _kernels(d: Any) -> dict[str, Any]:
    """By reduction: the kernel of the loss and that of its gradient."""
    code = BY_NUMPY[d].code
    scores = (code, "i64", code, "i64", "f64")
    of_sum = cpu.small(likelihood_sum_gradient, (code, "f64", *scores[1:], code))
    return {
        "mean": (cpu.small(likelihood_sum, (*scores, code, "f64"), mean=True), of_sum),
        "sum": (cpu.small(likelihood_sum, (*scores, code, "f64"), mean=False), of_sum),
        "none": (
            cpu.small(likelihood_each, (*scores, code)),
            cpu.small(likelihood_each_gradient, (code, "f64", *scores[1:], code)),
        ),
    }


@functools.lru_cache(256)
def _number(value: Any, kind: Any) -> Any:
    return np.asarray(value, kind)


@functools.lru_cache(64)
def _ones(d: Any, count: int) -> Any:
    made = np.ones(count, d)
    made.flags.writeable = False
    return made


def _places(shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Scores as (rows, classes, places) and targets as (rows, places)."""
    if len(shape) == 2:
        return (*shape, 1), (shape[0], 1)
    if len(shape) == 1:
        return (1, shape[0], 1), (1, 1)
    return (shape[0], shape[1], -1), (shape[0], -1)


def likelihood(
    input: Tensor,
    target: Tensor,
    weight: Any,
    skipped: int,
    reduction: str,
    smooth: float,
) -> Tensor | None:
    """The reduced loss of scores of any shape whose targets name classes and have the shape that belongs to it; None if
    this is not for them."""
    k, d, x = input._k, input.dtype, input._array
    if k > 1 or modes.on or target._k or target.dtype is not int64 or not (d is float32 or d is float64) or not x.size:
        return None
    if weight is not None and (weight._k or weight.dtype is not d):
        return None
    scores, places = _places(x.shape)
    kind = x.dtype
    y = target._array.reshape(places)
    factors = _ones(kind, scores[1]) if weight is None else weight._array
    settings = _number(skipped, _INT64), _number(smooth, np.float64)
    call = _kernels(kind)[reduction][0]
    if reduction == "none":
        loss, total = empty(y.shape, kind), None
        call(x.reshape(scores), y, factors, *settings, loss)
        loss = loss.reshape(target._array.shape)
    else:
        loss, total = empty((), kind), empty((), np.float64)
        call(x.reshape(scores), y, factors, *settings, loss, total)
    out = wrap(loss, d)
    if k and local.grad:
        divisor = None if total is None else wrap(total, float64)
        record(_FUSED, out, (input,), [input, target, weight, skipped, reduction, smooth, divisor])
    return out


def _gradient(node: Node, g: Tensor, create_graph: bool) -> Any:
    input, target, weight = fetch(node, 0), fetch(node, 1), fetch(node, 2)
    skipped, reduction, smooth, divisor = node.saved[3:]
    if create_graph or g._k & ~GRAD or g.dtype is not input.dtype:
        return gradients(lambda x: formula[0](x, target, weight, skipped, reduction, smooth), [input], [g], [True])
    x = input._array
    scores, places = _places(x.shape)
    out, kind = zeros(x.shape, x.dtype), x.dtype
    factors = _ones(kind, scores[1]) if weight is None else weight._array
    cotangent = g._array.reshape(places) if reduction == "none" else g._array
    call = _kernels(kind)[reduction][1]
    settings = _number(skipped, _INT64), _number(smooth, np.float64)
    call(
        cotangent,
        _ONE if divisor is None else divisor._array,
        target._array.reshape(places),
        factors,
        *settings,
        out.reshape(scores),
    )
    return (wrap(out, g.dtype),)


_FUSED = Fused("nll_loss", "NllLossBackward0", _gradient)
