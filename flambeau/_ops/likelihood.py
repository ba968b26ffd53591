"""The negative log-likelihood of plain CPU tensors by one kernel, with its gradient by another."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .._backend.cpu import cpu
from .._core.allocation import empty, zeros
from .._core.dtypes import BY_NUMPY, float32, float64, int64
from .._core.state import local, modes
from .._kernel.likelihood import (
    likelihood_each,
    likelihood_each_gradient,
    likelihood_sum,
    likelihood_sum_gradient,
)
from .._tensor import Tensor, wrap
from .fused import Fitted, record
from .layers.normalization import constant

_INT64 = np.dtype(np.int64)
_ONE = np.asarray(1.0)
composed: list[Callable[..., Any]] = []  # the same over tensors, for higher derivatives


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
    factors, settings = _settings(scores, kind, weight, skipped, smooth)
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


def _settings(scores: Any, kind: Any, weight: Any, skipped: int, smooth: float) -> tuple[Any, tuple[Any, Any]]:
    """Weights of classes, the number that is skipped, and the share of all classes, as operands."""
    factors = constant(scores[1], 1, kind) if weight is None else weight._array
    return factors, (np.asarray(skipped, _INT64), np.asarray(smooth, np.float64))


def _gradient(
    g: Tensor, input: Tensor, target: Tensor, weight: Any, skipped: int, reduction: str, smooth: float, divisor: Any,
    needs: Any,
) -> tuple[Tensor]:  # fmt: skip
    x = input._array
    scores, places = _places(x.shape)
    out = zeros(x.shape, x.dtype)
    factors, settings = _settings(scores, x.dtype, weight, skipped, smooth)
    cotangent = g._array.reshape(places) if reduction == "none" else g._array
    total = _ONE if divisor is None else divisor._array
    call = _kernels(x.dtype)[reduction][1]
    call(cotangent, total, target._array.reshape(places), factors, *settings, out.reshape(scores))
    return (wrap(out, g.dtype),)


def _formula(x: Tensor, target: Tensor, weight: Any, skipped: int, reduction: str, smooth: float, _: Any) -> Tensor:
    return composed[0](x, target, weight, skipped, reduction, smooth)  # type: ignore[no-any-return]


_FUSED = Fitted("nll_loss", "NllLossBackward0", _gradient, _formula)
