"""Reductions of rarer kinds in ONNX: distances, counts, medians."""

from __future__ import annotations

from typing import Any

from .._core.dtypes import BY_NAME
from ..jit._operators import DTYPES
from ..jit._tracer import Node
from ._builder import Builder, rank, result_kind
from ._table import axes_of, number_of, op, pair_of, refuse, variance


@op("isin")
def _isin(b: Builder, n: Node, x: Any, among: Any, **named: Any) -> str:
    left, right, _ = pair_of(b, x, among)
    same = b.add("Equal", b.unsqueeze(left, [rank(x)]), b.add("Reshape", right, b.constant([-1])))
    found = b.reduce("ReduceMax", b.cast(same, DTYPES[3]), [rank(x)], False)
    return b.cast(found, BY_NAME["bool"])


@op("var_mean", "std_mean")
def _spread_and_mean(
    b: Builder, n: Node, x: Any, dim: Any = None, correction: Any = 1, keepdim: bool = False, **named: Any
) -> list[str]:
    made = variance(b, x, dim, correction, keepdim, result_kind(n))
    mean = b.reduce("ReduceMean", b.t(x), axes_of(x, dim), keepdim)
    return [b.add("Sqrt", made) if n.op == "std_mean" else made, mean]


@op("count_nonzero")
def _count(b: Builder, n: Node, x: Any, dim: Any = None) -> str:
    return b.reduce("ReduceSum", b.cast(b.t(x, BY_NAME["bool"]), DTYPES[4]), axes_of(x, dim), False)


@op("cosine_similarity")
def _cosine(b: Builder, n: Node, x: Any, y: Any, dim: int = 1, eps: float = 1e-8) -> str:
    left, right, like = pair_of(b, x, y)
    axes, least = [dim - max(rank(x), rank(y)) if dim >= 0 else dim], b.constant(eps, like.numpy)
    sizes = [b.add("Max", b.reduce("ReduceL2", v, axes, False), least) for v in (left, right)]
    return b.add("Div", b.reduce("ReduceSum", b.add("Mul", left, right), axes, False), b.add("Mul", *sizes))


@op("cdist", "pairwise_distance")
def _distance(b: Builder, n: Node, x: Any, y: Any, p: float = 2.0, eps: Any = None, keepdim: bool = False) -> str:
    left, right = b.t(x), b.t(y)
    if n.op == "cdist":
        keepdim, left, right = False, b.unsqueeze(left, [rank(x) - 1]), b.unsqueeze(right, [rank(y) - 2])
    apart = b.add("Sub", left, right)
    if n.op == "pairwise_distance":
        apart = b.add("Add", apart, number_of(b, n, 1e-6 if eps is None else eps))
    if p not in (1, 2):
        refuse(f"{n.op} of order {p}")
    return b.reduce(f"ReduceL{int(p)}", apart, [-1], keepdim)


@op("linalg_det")
def _det(b: Builder, n: Node, x: Any) -> str:
    return b.add("Det", b.t(x))


@op("kthvalue", "median")
def _kth(b: Builder, n: Node, x: Any, *rest: Any) -> Any:
    if n.op == "median":
        if not rest:
            refuse("the median of all elements")
        rest = None, *rest
    k, dim, keepdim = (*rest, *(None, -1, False)[len(rest) :])
    axis = dim % rank(x)
    k = (x.example.shape[axis] + 1) // 2 if k is None else k
    parts = b.add("TopK", b.t(x), b.constant([k]), outputs=2, axis=axis, largest=0, sorted=1)
    parts = [b.slice(part, axis, -1, (1 << 63) - 1) for part in parts]
    return parts if keepdim else [b.squeeze(part, [axis]) for part in parts]


@op("cross", "linalg_cross")
def _cross(b: Builder, n: Node, x: Any, y: Any, dim: Any = -1) -> str:
    if dim is None:
        refuse("cross without a dimension")
    left, right, _ = pair_of(b, x, y)
    axis = dim % max(rank(x), rank(y))
    turned = [
        [b.add("Gather", v, b.constant(order), axis=axis) for v in (left, right)] for order in ([1, 2, 0], [2, 0, 1])
    ]
    (a, c), (d, e) = turned
    return b.add("Sub", b.add("Mul", a, e), b.add("Mul", d, c))
