"""Losses on margins between the scores of classes; under `nn.functional`."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..._backend.cpu import PARALLEL, cpu
from ..._core.allocation import empty
from ..._core.dtypes import float32, float64, int64
from ..._core.state import META, local, modes
from ..._dispatch import backend_of
from ..._kernel.margins import (
    multi_margin_gradient,
    multi_margin_rows,
    multilabel_margin_gradient,
    multilabel_margin_rows,
)
from ..._tensor import Tensor, wrap
from ..fused import Fitted, record
from ..layers.normalization import constant
from ..places.index_kernels import first_outside
from ..records.rules import type_name
from ..registry import labelled, ops
from .elements import check_reduction, functional, legacy_reduction, reduced


def _is_plain(x: Tensor, y: Tensor, weight: Tensor | None = None) -> bool:
    """Whether kernels may look at matrices of scores, class numbers and weights of classes."""
    d = x.dtype
    if x._k > 1 or y._k or modes.on or not (d is float32 or d is float64) or y.dtype is not int64 or not x._array.size:
        return False
    return weight is None or (not weight._k and weight.dtype is d and weight._array.shape == x._array.shape[1:])


def _names_other_classes(y: Tensor, low: int, high: int) -> bool:
    if y.dtype is not int64:
        raise RuntimeError(f"expected scalar type Long but found {type_name(y.dtype)}")
    return not y._k & META and first_outside(backend_of(y._k), y._array, low, high) is not None


# -- one class -----------------------------------------------------------------------------------------------------


@functools.cache
def _multi_kernels(code: str, p: int, large: bool) -> tuple[Any, Any]:
    scores, make = (code, "i64", code, "f64"), cpu.large if large else cpu.small
    forward = make(multi_margin_rows, (*scores, code), p=p)
    return forward, make(multi_margin_gradient, (code, *scores, code), p=p)


def _multi(x: Tensor, y: Tensor, p: int, margin: float, weight: Tensor | None) -> Tensor:
    """The losses of rows."""
    if not _is_plain(x, y, weight):
        return _composed_multi(x, y, weight, p, margin)
    array = x._array
    loss = empty(array.shape[0], array.dtype)
    settings = _settings(array, weight, margin)
    _multi_kernels(x.dtype.code, p, array.size >= PARALLEL)[0](array, y._array, *settings, loss)
    out = wrap(loss, x.dtype)
    if x._k and local.grad:
        record(_MULTI, out, (x,), [x, y, weight, p, float(margin)])
    return out


def _settings(array: Any, weight: Tensor | None, margin: float) -> tuple[Any, Any]:
    factors = constant(array.shape[1], 1, array.dtype) if weight is None else weight._array
    return factors, np.asarray(float(margin))


def _multi_gradient(
    g: Tensor, x: Tensor, y: Tensor, weight: Tensor | None, p: int, margin: float, needs: Any
) -> Any:  # fmt: skip
    out, settings = empty(x._array.shape, x._array.dtype), _settings(x._array, weight, margin)
    _multi_kernels(x.dtype.code, p, x._array.size >= PARALLEL)[1](g._array, x._array, y._array, *settings, out)
    return (wrap(out, x.dtype),)


def _composed_multi(x: Tensor, y: Tensor, weight: Tensor | None, p: int, margin: float) -> Tensor:
    """The same over tensors."""
    at = ops.unsqueeze(y, 1)
    gap = ops.clamp_min(margin - ops.gather(x, 1, at) + x, 0)
    if p == 2:
        gap = gap * gap
    if weight is not None:
        gap = gap * ops.unsqueeze(ops.index_select(weight, 0, y), 1)
    return ops.sum(ops.scatter(gap, 1, at, 0), 1) / x._array.shape[1]  # type: ignore[no-any-return]


_MULTI = Fitted("multi_margin_loss", "MultiMarginLossBackward0", _multi_gradient, _composed_multi)


# -- several classes -----------------------------------------------------------------------------------------------


@functools.cache
def _multilabel_kernels(code: str, large: bool) -> tuple[Any, Any]:
    make = cpu.large if large else cpu.small
    forward = make(multilabel_margin_rows, (code, "i64", code, "i64"))
    return forward, make(multilabel_margin_gradient, (code, code, "i64", "i64", code))


def _multilabel(x: Tensor, y: Tensor) -> Tensor:
    """The losses of rows."""
    if not _is_plain(x, y):
        return _composed_multilabel(x, y)
    array = x._array
    loss, chosen = empty(array.shape[0], array.dtype), empty(array.shape, np.int64)
    _multilabel_kernels(x.dtype.code, array.size >= PARALLEL)[0](array, y._array, loss, chosen)
    out = wrap(loss, x.dtype)
    if x._k and local.grad:
        record(_MULTILABEL, out, (x,), [x, y, wrap(chosen, int64)])
    return out


def _multilabel_gradient(g: Tensor, x: Tensor, y: Tensor, chosen: Tensor, needs: Any) -> Any:
    out, call = empty(x._array.shape, x._array.dtype), _multilabel_kernels(x.dtype.code, x._array.size >= PARALLEL)[1]
    call(g._array, x._array, y._array, chosen._array, out)
    return (wrap(out, x.dtype),)


def _composed_multilabel(x: Tensor, y: Tensor, *rest: Any) -> Tensor:
    """The same over tensors."""
    valid = ops.eq(ops.cumsum(ops.to_dtype(y < 0, int64), 1), 0)  # (N, C): the labels before the first -1
    at = ops.where(valid, y, ops.zeros_like(y))
    often = ops.scatter_add(ops.zeros_like(y), 1, at, ops.to_dtype(valid, y.dtype))
    others = ops.unsqueeze(often == 0, 1)  # (N, 1, C)
    gap = ops.clamp_min(1 - ops.unsqueeze(ops.gather(x, 1, at), 2) + ops.unsqueeze(x, 1), 0)  # (N, labels, C)
    used = ops.to_dtype(ops.logical_and(ops.unsqueeze(valid, 2), others), x.dtype)
    return ops.sum(gap * used, (1, 2)) / x._array.shape[1]  # type: ignore[no-any-return]


_MULTILABEL = Fitted(
    "multilabel_margin_loss", "MultilabelMarginLossBackward0", _multilabel_gradient, _composed_multilabel
)


# -- public functions ------------------------------------------------------------------------------------------------


@functional(planned=True)
@labelled("MultiMarginLossBackward0")
def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The mean over other classes of max(0, margin - x[y] + x[i])**p."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    shape = input._array.shape
    if weight is not None and weight._array.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    if len(shape) > 2 or not (shape[-1] if shape else 1):
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(shape)}"
        )
    single = len(shape) < 2
    x = ops.reshape(input, (1, -1)) if single else input
    y = target if target._array.ndim == 1 else ops.reshape(target, (-1,))
    rows, count = x._array.shape
    if y._array.shape[0] != rows or target._array.ndim > 1:
        raise RuntimeError(f"inconsistent target size, expected {rows} but got {list(target._array.shape)}")
    if _names_other_classes(y, 0, count):
        raise RuntimeError("target out of range")
    loss = _multi(x, y, p, margin, weight)
    if reduction == "none" and single and not target._array.ndim:
        return ops.reshape(loss, ())  # type: ignore[no-any-return]
    return reduced(loss, reduction)


@functional(planned=True)
@labelled("MultilabelMarginLossBackward0")
def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """The mean over labels y and other classes i of max(0, 1 - x[y] + x[i]); labels end at the first -1."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    shape = input._array.shape
    if len(shape) > 2 or not (shape[-1] if shape else 1):
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(shape)}"
        )
    if target._array.shape != shape:
        raise RuntimeError(f"inconsistent target size: {list(target._array.shape)} for input of size: {list(shape)}")
    single = len(shape) < 2
    x, y = (ops.reshape(t, (1, -1)) if single else t for t in (input, target))
    count = x._array.shape[1]
    if _names_other_classes(y, -1, count):
        raise RuntimeError("target out of range")
    loss = _multilabel(x, y)
    if reduction == "none" and single:
        return ops.reshape(loss, ())  # type: ignore[no-any-return]
    return reduced(loss, reduction)


@functional
def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The mean over classes of the binary cross-entropy of sigmoid(input)."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    loss = -(target * ops.log_sigmoid(input) + (1 - target) * ops.log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    last = input._array.ndim - 1
    loss = ops.sum(loss, last) / input._array.shape[last] if last >= 0 else loss
    return reduced(loss, reduction)


SCHEMAS = """
multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int reduction=1) -> Tensor  # autocast=single, composite
multilabel_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor  # autocast=single
multilabel_soft_margin_loss  # composite
"""
