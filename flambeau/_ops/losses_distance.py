"""Losses on distances and margins: between vectors, and between the scores of classes; under `nn.functional`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._core.dtypes import FLOATING, int64, promote_types
from .._core.sizes import broadcast_shapes
from .._tensor import Tensor
from .losses import CODES, check_reduction, functional, legacy_reduction, reduced
from .registry import functions, labelled, ops, public


@public("cosine_similarity", "nn.functional.cosine_similarity", method=False)
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along a dimension.

    >>> import flambeau as torch
    >>> torch.nn.functional.cosine_similarity(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """
    common = promote_types(x1.dtype, x2.dtype)
    if common.category != FLOATING:
        raise RuntimeError("expected common dtype to be floating point, yet common dtype is " + str(common))
    shape = broadcast_shapes(x1._array.shape, x2._array.shape)
    a, b = (ops.expand(t if t.dtype is common else ops.to_dtype(t, common), shape) for t in (x1, x2))
    if not shape:
        a, b = ops.reshape(a, (1,)), ops.reshape(b, (1,))
        return ops.reshape(_cosine(a, b, 0 if dim in (0, -1) else dim, eps), ())
    return _cosine(a, b, dim, eps)


def _cosine(a: Tensor, b: Tensor, dim: int, eps: float) -> Tensor:
    scaled = []
    for t in (a, b):
        length = ops.norm(t, 2, dim, True)
        scaled.append(t / (length + ops.detach(ops.clamp(length, min=eps) - length)))
    return ops.sum(scaled[0] * scaled[1], dim)  # type: ignore[no-any-return]


@public("pairwise_distance", "nn.functional.pairwise_distance", method=False)
@labelled("NormBackward1")
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last dimension."""
    difference = ops.add(ops.sub(x1, x2), eps)
    last = max(x1._array.ndim, x2._array.ndim) - 1
    return ops.norm(difference, p, last, keepdim)  # type: ignore[no-any-return]


@functional
def normalize(input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """Vectors along a dimension divided by their p-norm, which counts as `eps` at least."""
    length = ops.expand_as(ops.clamp_min(ops.norm(input, p, dim, True), eps), input)
    return ops.div(input, length) if out is None else functions["div"](input, length, out=out)  # type: ignore[no-any-return]


@functional
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """x for a target of 1, max(0, margin - x) for a target of -1."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    nothing = ops.zeros_like(input)
    far = ops.where(ops.ne(target, 1), ops.clamp_min(margin - input, 0), nothing)
    near = ops.where(ops.ne(target, -1), input, nothing)
    return reduced(far + near, reduction)


@functional
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, -y (x1 - x2) + margin)."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    if not input1._array.ndim == input2._array.ndim == target._array.ndim:
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.shape}, input2: {input2.shape}, target: {target.shape} "  # type: ignore[attr-defined]
        )
    return reduced(ops.clamp_min(-target * (input1 - input2) + margin, 0), reduction)


@functional
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """1 - cos for a target of 1, max(0, cos - margin) for a target of -1."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    rank = target._array.ndim
    if rank not in (0, 1):
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if input1._array.ndim != rank + 1 or input2._array.ndim != rank + 1:
        raise RuntimeError(f"{rank}D target tensor expects {rank + 1}D input tensors")
    products = ops.sum(input1 * input2, rank)
    one, two = (ops.sum(x * x, rank) + 1e-12 for x in (input1, input2))
    cosine = products / ops.sqrt(one * two)
    nothing = ops.zeros_like(cosine)
    near = ops.where(ops.eq(target, 1), 1 - cosine, nothing)
    far = ops.where(ops.eq(target, -1), ops.clamp_min(cosine - margin, 0), nothing)
    return reduced(near + far, reduction)


@functional
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-6,
    swap: bool = False, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, |a - p| - |a - n| + margin)."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    ranks = {t._array.ndim for t in (anchor, positive, negative)}
    if len(ranks) > 1:
        raise RuntimeError("anchor, positive and negative must have the same number of dimensions")
    return reduced(
        _triplet(lambda a, b: pairwise_distance(a, b, p, eps), anchor, positive, negative, margin, swap), reduction
    )


def _triplet(
    distance: Callable[..., Any], anchor: Tensor, positive: Tensor, negative: Tensor, margin: float, swap: bool
) -> Tensor:
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = ops.minimum(far, distance(positive, negative))
    return ops.clamp_min(near - far + margin, 0)  # type: ignore[no-any-return]


@functional
def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Any = None, margin: float = 1.0,
    swap: bool = False, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """`triplet_margin_loss` with any distance."""
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if reduction not in CODES:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    ranks = [t._array.ndim for t in (anchor, positive, negative)]
    if len(set(ranks)) > 1:
        raise RuntimeError(f"anchor, positive and negative must have the same number of dimensions, but got {ranks}")
    return reduced(
        _triplet(distance_function or pairwise_distance, anchor, positive, negative, margin, swap), reduction
    )


# -- scores of classes -------------------------------------------------------------------------------------------


@functional
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
    y = ops.reshape(target, (-1,))
    rows, count = x._array.shape
    if y._array.shape[0] != rows or target._array.ndim > 1:
        raise RuntimeError(f"inconsistent target size, expected {rows} but got {list(target._array.shape)}")
    if bool(((y._array < 0) | (y._array >= count)).any()):
        raise RuntimeError("target out of range")
    at = ops.unsqueeze(y, 1)
    gap = ops.clamp_min(margin - ops.gather(x, 1, at) + x, 0)
    if p == 2:
        gap = gap * gap
    if weight is not None:
        gap = gap * ops.unsqueeze(ops.index_select(weight, 0, y), 1)
    gap = ops.scatter(gap, 1, at, 0)
    loss = ops.sum(gap, 1) / count
    if reduction == "none" and single:
        return ops.reshape(loss, ())  # type: ignore[no-any-return]
    return reduced(loss, reduction)


@functional
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
    if bool(((y._array < -1) | (y._array >= count)).any()):
        raise RuntimeError("target out of range")
    valid = ops.eq(ops.cumsum(ops.to_dtype(y < 0, int64), 1), 0)  # (N, C): the labels before the first -1
    at = ops.where(valid, y, ops.zeros_like(y))
    often = ops.scatter_add(ops.zeros_like(y), 1, at, ops.to_dtype(valid, y.dtype))
    others = ops.unsqueeze(often == 0, 1)  # (N, 1, C)
    gap = ops.clamp_min(1 - ops.unsqueeze(ops.gather(x, 1, at), 2) + ops.unsqueeze(x, 1), 0)  # (N, labels, C)
    used = ops.to_dtype(ops.logical_and(ops.unsqueeze(valid, 2), others), x.dtype)
    loss = ops.sum(gap * used, (1, 2)) / count
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
