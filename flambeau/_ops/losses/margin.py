"""Losses on margins between the scores of classes; under `nn.functional`."""

from __future__ import annotations

import functools
from typing import Any

from ..._core.dtypes import BY_NUMPY, int64
from ..._kernel.folds.rows import Rows
from ..._kernel.training.margins import multilabel_margin_gradient, multilabel_margin_rows
from ..._tensor import Tensor
from ..folds import row_programs
from ..records.batching import folded
from ..records.primitive import primitive
from ..records.refusals import refusal
from ..records.replay import second
from ..records.rules import type_name
from ..records.shape_rules import dtype_of, same
from ..registry import labelled, ops
from .elements import check_reduction, functional, is_taken, legacy_reduction, reduced


def _check_classes(y: Tensor, classes: int, skipped: int) -> None:
    if y.dtype is not int64:
        raise RuntimeError(f"expected scalar type Long but found {type_name(y.dtype)}")
    _check_range(y, classes, skipped)


@refusal
def _check_range(backend: Any, y: Any, classes: int, skipped: int) -> None:
    if row_programs.names_others(backend, y, classes, skipped):
        raise RuntimeError("target out of range")


# -- one class -----------------------------------------------------------------------------------------------------


@functools.cache
def _margins(weighted: bool, squared: bool, gradient: bool) -> Rows:
    """The losses of rows of scores whose targets name a class, or their gradients, of which those of the losses are fixed. Then come
    targets and the margin; picked are the score and, if there are some, the weight of the class that is named."""

    def gap(m: Any, x: Any, target: Any, margin: Any, own: Any, *rest: Any) -> tuple[Any, Any]:
        """By how much a class comes too close, and whether it is another one."""
        return (m.cast(margin, x.type) - own) + x, rest[-1] != target

    def lift(m: Any, x: Any, *given: Any) -> Any:
        if gradient:
            return slope(m, x, *given)
        near, other = gap(m, x, *given)
        return m.where((near < 0.0) | ~other, 0.0, near * near if squared else near)

    def slope(m: Any, x: Any, *given: Any) -> Any:
        near, other = gap(m, x, *given[1:])
        return m.where((near > 0.0) & other, 2.0 * near if squared else m.constant(1.0, x), 0.0)

    def share(m: Any, given: Any) -> Any:
        """What the total counts, in double precision."""
        factor = 1.0 / m.cast(given[-1], "f64")
        return factor * m.cast(given[-3], "f64") if weighted else factor

    def settle(m: Any, g: Any, *given: Any) -> tuple[Any, Any]:
        factor = m.cast(m.cast(g, "f64") * share(m, given), g.type)
        return factor, m.cast(given[-2], g.type) * factor

    def last(m: Any, x: Any, *given: Any) -> Any:
        *fixed, factor, total, count, place = given[weighted:]
        return m.where(place == fixed[1], -total, slope(m, x, *fixed, count, place) * factor)

    picks = ((0, int(gradient)), (1, int(gradient)))[: 1 + weighted]
    stages = (("sum", lift),)
    if gradient:
        return Rows(stages, last, True, 3, weighted, settle, True, picks, 1)
    return Rows(stages, lambda m, *given: given[-2] * share(m, given), False, 2, weighted, None, True, picks, 1)


def _run(backend: Any, x: Any, target: Any, weight: Any, p: int, margin: float, out: Any, *g: Any) -> Any:
    program = _margins(weight is not None, p == 2, bool(g))
    given = [x, *([] if weight is None else [weight]), *g, target]
    backend.along.run("multi_margin_backward" if g else "multi_margin", program, given, [out], (1,), (float(margin),))
    return out


@primitive(
    meta=lambda x, *rest: (x.shape[:1], dtype_of(x)), tensors=3, name="multi_margin", batch=folded("weight"),
    grad={"x": lambda g, x, target, weight, p, margin: multi_margin_backward(g, x, target, weight, p, margin)},
    backward_name="MultiMarginLossBackward0",
)  # fmt: skip
def multi_margin(backend: Any, x: Any, target: Any, weight: Any, p: int, margin: float) -> Any:
    """The losses of rows."""
    return _run(backend, x, target, weight, p, margin, backend.empty(x.shape[:1], x.dtype))


def _multi_second(
    gs: Any, cotangent: Tensor, x: Tensor, target: Tensor, weight: Any, p: int, margin: float, needs: Any
) -> Any:
    def formula(x: Tensor) -> Tensor:
        return _composed_multi(x, target, weight, p, margin)

    return [*second(formula, [x], cotangent, [True], gs, needs[:2]), None, None]


@primitive(
    meta=lambda cotangent, x, *rest: same(x), tensors=4, name="multi_margin_backward", batch=folded("weight"),
    grad=_multi_second,
)  # fmt: skip
def multi_margin_backward(backend: Any, cotangent: Any, x: Any, target: Any, weight: Any, p: int, margin: float) -> Any:
    return _run(backend, x, target, weight, p, margin, backend.empty(x.shape, x.dtype), cotangent)


def _composed_multi(x: Tensor, y: Tensor, weight: Tensor | None, p: int, margin: float) -> Tensor:
    """The same over tensors."""
    at = ops.unsqueeze(y, 1)
    gap = ops.clamp_min(margin - ops.gather(x, 1, at) + x, 0)
    if p == 2:
        gap = gap * gap
    if weight is not None:
        gap = gap * ops.unsqueeze(ops.index_select(weight, 0, y), 1)
    return ops.sum(ops.scatter(gap, 1, at, 0), 1) / x._array.shape[1]


# -- several classes: loops over the labels of a row, which no fold has -----------------------------------------------


@primitive(
    meta=lambda x, target: [(x.shape[:1], dtype_of(x)), (x.shape, int64)], tensors=2, name="multilabel_margin",
    grad=lambda given, others, x, target: (multilabel_margin_backward(given[0], x, target, others[0]), None),
    batch=folded(), backward_name="MultilabelMarginLossBackward0",
)  # fmt: skip
def multilabel_margin(backend: Any, x: Any, target: Any) -> Any:
    """The losses of rows, and which classes are labels."""
    code = BY_NUMPY[x.dtype].code
    loss, chosen = backend.empty(x.shape[:1], x.dtype), backend.empty(x.shape, target.dtype)
    backend.sized(x.size, multilabel_margin_rows, (code, "i64", code, "i64"))(x, target, loss, chosen)
    return loss, chosen


def _multilabel_second(gs: Any, cotangent: Tensor, x: Tensor, target: Tensor, needs: Any) -> Any:
    found = second(lambda x: _composed_multilabel(x, target), [x], cotangent, [True], gs, needs[:2])
    return [*found, None, None]


@primitive(
    meta=lambda cotangent, x, *rest: same(x), tensors=4, name="multilabel_margin_backward", batch=folded(),
    grad=_multilabel_second,
)  # fmt: skip
def multilabel_margin_backward(backend: Any, cotangent: Any, x: Any, target: Any, chosen: Any) -> Any:
    code, out = BY_NUMPY[x.dtype].code, backend.empty(x.shape, x.dtype)
    call = backend.sized(x.size, multilabel_margin_gradient, (code, code, "i64", "i64", code))
    call(cotangent, x, target, chosen, out)
    return out


def _composed_multilabel(x: Tensor, y: Tensor) -> Tensor:
    """The same over tensors."""
    valid = ops.eq(ops.cumsum(ops.to_dtype(y < 0, int64), 1), 0)  # (N, C): the labels before the first -1
    at = ops.where(valid, y, ops.zeros_like(y))
    often = ops.scatter_add(ops.zeros_like(y), 1, at, ops.to_dtype(valid, y.dtype))
    others = ops.unsqueeze(often == 0, 1)  # (N, 1, C)
    gap = ops.clamp_min(1 - ops.unsqueeze(ops.gather(x, 1, at), 2) + ops.unsqueeze(x, 1), 0)  # (N, labels, C)
    used = ops.to_dtype(ops.logical_and(ops.unsqueeze(valid, 2), others), x.dtype)
    return ops.sum(gap * used, (1, 2)) / x._array.shape[1]


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
    _check_classes(y, count, 0)
    own = weight is None or (weight.dtype is x.dtype and weight._array.shape == (count,) and is_taken(weight))
    loss = (multi_margin if own and is_taken(x, y) else _composed_multi)(x, y, weight, p, margin)
    if reduction == "none" and single and not target._array.ndim:
        return ops.reshape(loss, ())
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
    _check_classes(y, count, -1)
    loss = multilabel_margin(x, y)[0] if is_taken(x, y) else _composed_multilabel(x, y)
    if reduction == "none" and single:
        return ops.reshape(loss, ())
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
