"""Forward mode from records: rules that records name by `tangent=`, which give the tangents of results.

A rule is a function (op, args, out, tangents): `tangents` has for each argument its tangent or None (for a list, a list of
them); the result is the tangent of `out`, or a tuple of them with None for results without one. It may give NotImplemented;
then the tangent comes from differentiating the backward pass. Pointwise records need no rule: their derivative is one
(`pointwise_op.tangent`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..._core.state import BATCHED
from ..._tensor import Tensor, detached
from ..registry import ops, records

Rule = Callable[[Any, Any, Any, Any], Any]
set_tangent: Any = None  # set by forward mode


def _only(op: Any, tangents: Any, names: tuple[str, ...]) -> bool:
    """Whether no other arguments than those have tangents."""
    return all([t is None or name in names for name, t in zip(op.names, tangents)])


def linear(*names: str) -> Rule:
    """Of operations that are linear in these arguments together: applied to the tangents, zero where there is none."""

    def rule(op: Any, args: Any, out: Any, tangents: Any) -> Any:
        if not _only(op, tangents, names):
            return NotImplemented
        given = list(args)
        for i, name in enumerate(op.names[: op.tensors]):
            if name in names and isinstance(args[i], (list, tuple)):
                given[i] = [_or_zero(t, a) for t, a in zip(tangents[i], args[i])]
            elif name in names:
                given[i] = _or_zero(tangents[i], args[i])
        return op(*given)

    return rule


def _or_zero(tangent: Any, a: Any) -> Any:
    return tangent if tangent is not None or not isinstance(a, Tensor) else ops.zeros_like(detached(a))


def multilinear(*names: str, added: str | None = None) -> Rule:
    """Of products, linear in each of these arguments: the sum over them; `added` names one that is added to the product."""

    def rule(op: Any, args: Any, out: Any, tangents: Any) -> Any:
        if not _only(op, tangents, (*names, added) if added else names):
            return NotImplemented
        at: Any = None if added is None else op.names.index(added)
        total, left = None, None if at is None else tangents[at]
        for i, name in enumerate(op.names[: op.tensors]):
            if name not in names or tangents[i] is None:
                continue
            given = list(args)
            given[i] = tangents[i]
            if at is not None:  # goes with the first product
                given[at], left = left, None
                if given[at] is None and "beta" in op.names:
                    given[at], given[op.names.index("beta")] = args[at], 0
            made = op(*given)
            total = made if total is None else ops.add(total, made)
        if at is not None and left is not None:  # it alone has a tangent: zeros in place of the product
            i = op.names.index(names[0])
            given = list(args)
            given[i], given[at] = ops.zeros_like(detached(args[i])), left
            total = op(*given)
        return total

    return rule


def chosen_along(op: Any, args: Any, out: Any, tangents: Any) -> Any:
    """Of operations that choose elements of x along `dim`, whose places are the second result."""
    t, dim, places = tangents[0], args[op.names.index("dim")], out[1]
    if not t._array.ndim:
        return ops.clone(t), None
    gone = places._array.ndim < t._array.ndim
    made = ops.gather(t, dim, ops.unsqueeze(places, dim) if gone else places)
    return ops.squeeze(made, dim) if gone else made, None


def is_shared(t: Any, others: Any) -> bool:
    """Whether a tangent lies in memory of others, so that it must be copied before it is given to a result."""
    if any([t is other for other in others]):
        return True
    while t._k & BATCHED:
        t = t.value
    return t._view is not None


class Composed:
    """In place of a rule: the operation written with others, which run on the operands with their tangents."""

    def __init__(self, formula: Callable[..., Any]):
        self.formula = formula


def softmax(op: Any, args: Any, out: Any, tangents: Any) -> Any:
    """Its matrix of derivatives is symmetric, so that the gradient's formula serves tangents too."""
    return NotImplemented if out.dtype.category != 2 else records["softmax_backward"](tangents[0], out, args[1])


def softmax_backward(y_cotangent: Tensor, y: Tensor, dim: int) -> Any:
    inner = ops.mul(y_cotangent, y)
    return ops.sub(inner, ops.mul(y, ops.sum(inner, dim, True)))


def log_softmax(op: Any, args: Any, out: Any, tangents: Any) -> Any:
    if out.dtype.category != 2:
        return NotImplemented
    t, dim = tangents[0], args[1]
    return ops.sub(t, ops.sum(ops.mul(ops.exp(out), t), dim, True))


def log_softmax_backward(y_cotangent: Tensor, y: Tensor, dim: int) -> Any:
    return ops.sub(y_cotangent, ops.mul(ops.exp(y), ops.sum(y_cotangent, dim, True)))


def largest(op: Any, args: Any, out: Any, tangents: Any) -> Any:
    """Of maxima over windows, whose places are counted over all dimensions of space."""
    t, places, rank = tangents[0], out[1], args[2]
    flat, index = (
        ops.reshape(v, (*v._array.shape[: v._array.ndim - rank], math.prod(v._array.shape[v._array.ndim - rank :])))
        for v in (t, places)
    )
    return ops.reshape(ops.gather(flat, flat._array.ndim - 1, index), places._array.shape), None


def normalized(shape_of: Callable[[Tensor, Tensor], Tensor], plain: Callable[..., Any]) -> Rule:
    """Of norms (x, weight, bias, …): the derivative by x of the values before the weight is a symmetric matrix, too.

    `plain(x, *rest)` gives those values; `shape_of(t, x)` gives parameters the shape in which they go with them.
    """

    def rule(op: Any, args: Any, out: Any, tangents: Any) -> Any:
        x, weight, _, *rest = args
        by_x, by_weight, by_bias = tangents[:3]
        if x.dtype.category != 2:
            return NotImplemented
        total = None
        if by_x is not None:
            total = records[op.name + "_backward"](by_x, x, None, out[1], out[2], *rest, (True, False, False))[0]
            total = total if weight is None else ops.mul(total, shape_of(weight, x))
        for t, value in ((by_weight, None if by_weight is None else plain(x, *rest)), (by_bias, None)):
            if t is not None:
                term = shape_of(t, x) if value is None else ops.mul(value, shape_of(t, x))
                total = term if total is None else ops.add(total, term)
        if total is not None and total._array.shape != out[0]._array.shape:
            total = ops.clone(ops.expand(total, out[0]._array.shape))
        return (total, *[None] * (len(out) - 1))

    return rule
