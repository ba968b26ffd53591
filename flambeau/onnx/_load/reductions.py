"""ONNX operators along axes: sums, extremes, softmax, products of matrices, losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core import dtypes
from ..._core.info import iinfo
from ..._ops.registry import ops
from ..._tensor import Tensor
from .operators import Node, axis_of, on_sizes, operator

__all__: list[str] = []


def _axes(node: Node, x: Any, given: Any) -> list[int] | None:
    """The axes of a reduction, from the attribute or the input; None for one that does nothing."""
    axes = node.list("axes") if given is None else given
    if not axes:
        return None if node.flag("noop_with_empty_axes") else list(range(x.ndim))
    return [axis_of(a, x.ndim) for a in axes]


def _reduction(name: str, compute: Any, map: Any = lambda x: x) -> None:
    """Registers a reduction: `map` of the elements (also where there are no axes), then `compute` along the axes."""

    def run(node: Node, x: Tensor, axes: Any = None) -> Any:
        found = _axes(node, x, axes)
        value = map(x)
        if found is None or (not found and x.ndim):
            return compute(value.unsqueeze(0), [0], False)
        return compute(value, found, node.flag("keepdims", True))

    operator(name, lists=(1,))(run)


def _product(x: Tensor, axes: list[int], keep: bool) -> Any:
    kind = x.dtype
    for axis in sorted(axes, reverse=True):
        x = ops.prod(x, axis, keepdim=keep)
    return x.to(kind)


def _sum(x: Tensor, axes: list[int], keep: bool) -> Any:
    return ops.sum(x, axes, keepdim=keep, dtype=x.dtype)


def _extreme(function: Any, empty: Any) -> Any:
    def run(x: Tensor, axes: list[int], keep: bool) -> Any:
        if x.numel() == 0:  # the neutral element, which no maximum of nothing is
            value = empty if x.dtype.is_floating_point else empty > 0
            if not x.dtype.is_floating_point and x.dtype is not dtypes.bool_:
                value = iinfo(x.dtype).max if empty > 0 else iinfo(x.dtype).min
            return ops.full_like(_sum(x, axes, keep), value)
        if x.dtype is dtypes.bool_:
            return function(x.to(dtypes.uint8), axes, keep).to(dtypes.bool_)
        return function(x, axes, keep)

    return run


_reduction("ReduceSum", _sum)
_reduction("ReduceMean", lambda x, axes, keep: ops.mean(x, axes, keepdim=keep))
_reduction("ReduceMax", _extreme(lambda x, axes, keep: ops.amax(x, axes, keepdim=keep), -float("inf")))
_reduction("ReduceMin", _extreme(lambda x, axes, keep: ops.amin(x, axes, keepdim=keep), float("inf")))
_reduction("ReduceProd", _product)
_reduction("ReduceL1", _sum, ops.abs)
_reduction("ReduceL2", lambda x, axes, keep: ops.sqrt(_sum(x * x, axes, keep)))
_reduction("ReduceSumSquare", _sum, lambda x: x * x)
_reduction("ReduceLogSum", lambda x, axes, keep: ops.log(_sum(x, axes, keep)))
_reduction("ReduceLogSumExp", lambda x, axes, keep: ops.logsumexp(x, axes, keepdim=keep))


@on_sizes("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin")
def reduce_sizes(node: Node, x: Any, axes: Any = None) -> Any:
    found = node.list("axes") if axes is None else axes.tolist()
    if (
        x.ndim != 1
        or x.dtype.kind not in "iO"
        or (found or [0]) not in ([0], [-1])
        or node.flag("noop_with_empty_axes")
    ):
        return NotImplemented
    function: Any = {"ReduceSum": np.sum, "ReduceProd": np.prod, "ReduceMax": np.max, "ReduceMin": np.min}[node.kind]
    return function(x, keepdims=node.flag("keepdims", True)) if len(x) else NotImplemented


@operator("ArgMax", "ArgMin")
def arg_extreme(node: Node, x: Tensor) -> Any:
    axis, keep = axis_of(node.int("axis", 0), x.ndim), node.flag("keepdims", True)
    function = ops.argmax if node.kind == "ArgMax" else ops.argmin
    if node.flag("select_last_index"):
        return x.shape[axis] - 1 - function(ops.flip(x, [axis]), axis, keepdim=keep)
    return function(x, axis, keepdim=keep)


@operator("TopK", lists=(1,))
def top_k(node: Node, x: Tensor, k: Any = None) -> Any:
    count = node.int("k") if k is None else k[0]
    largest = node.flag("largest", True)
    return tuple(ops.topk(x, count, node.int("axis", -1), largest, node.flag("sorted", True)))


@operator("CumSum", lists=(1,))
def cumulative_sum(node: Node, x: Tensor, axis: Any) -> Any:
    return _cumulative(node, x, axis_of(axis[0], x.ndim), ops.cumsum, 0)


@operator("CumProd", lists=(1,))
def cumulative_product(node: Node, x: Tensor, axis: Any) -> Any:
    return _cumulative(node, x, axis_of(axis[0], x.ndim), ops.cumprod, 1)


def _cumulative(node: Node, x: Tensor, axis: int, function: Any, first: int) -> Any:
    reverse = node.flag("reverse")
    value = ops.flip(x, [axis]) if reverse else x
    made = function(value, axis, dtype=x.dtype)
    if node.flag("exclusive") and x.shape[axis]:
        start = ops.full_like(made.narrow(axis, 0, 1), first)
        made = ops.cat([start, made.narrow(axis, 0, x.shape[axis] - 1)], axis)
    return ops.flip(made, [axis]) if reverse else made


@operator("Softmax", "LogSoftmax", "Hardmax")
def softmax(node: Node, x: Tensor) -> Any:
    """Up to opset 12 all axes from one on count as a single one."""
    axis = axis_of(node.int("axis", -1 if node.opset >= 13 else 1), x.ndim)
    value = x if node.opset >= 13 else ops.reshape(x, [*x.shape[:axis], -1])
    if node.kind == "Hardmax":
        places = ops.argmax(value, axis, keepdim=True)
        made = ops.zeros_like(value).scatter(axis, places, 1)
    else:
        made = (ops.softmax if node.kind == "Softmax" else ops.log_softmax)(value, axis)
    return made.reshape(x.shape)


@operator("MatMul")
def matmul(node: Node, x: Tensor, y: Tensor) -> Any:
    return ops.matmul(x, y)


@operator("Gemm")
def gemm(node: Node, x: Tensor, y: Tensor, bias: Tensor | None = None) -> Any:
    alpha, beta, turned = node.float("alpha", 1.0), node.float("beta", 1.0), node.flag("transB")
    x = x.t() if node.flag("transA") else x
    if turned and alpha == beta == 1 and (bias is None or bias.ndim == 1) and x.dtype.is_floating_point:
        return ops.linear(x, y, bias)
    made = ops.matmul(x, y.t() if turned else y)
    made = made if alpha == 1 else (alpha * made).to(made.dtype)
    if bias is None:
        return made
    return made + (bias if beta == 1 else (beta * bias).to(bias.dtype))


operator("Einsum")(lambda node, *xs: ops.einsum(node.text("equation"), *xs))
operator("Det")(lambda node, x: ops.linalg_det(x))


@operator("NegativeLogLikelihoodLoss")
def nll_loss(node: Node, x: Tensor, target: Tensor, weight: Tensor | None = None) -> Any:
    ignored = node.int("ignore_index", -100)
    return ops.nll_loss(x, target.long(), weight, ignore_index=ignored, reduction=node.text("reduction", "mean"))


@operator("SoftmaxCrossEntropyLoss")
def cross_entropy(node: Node, x: Tensor, target: Tensor, weight: Tensor | None = None) -> Any:
    logs = ops.log_softmax(x, 1)
    return nll_loss(node, logs, target, weight), logs
