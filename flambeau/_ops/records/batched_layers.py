"""Rules for batches (see `batching`) of products, convolutions, norms and attention."""

from __future__ import annotations

import math
from typing import Any

from ..._tensor import Tensor
from ..registry import ops, records
from .batching import aligned, all_stacked, each, folded, merged, parted, rank_of, stacked

# -- products --------------------------------------------------------------------------------------------------------


def multiplied(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """Products of vectors and matrices: vectors become matrices, so that the batch is never taken for one of theirs."""
    a, b = args[0], args[1]
    first, second = rank_of(a, mapped[0]), rank_of(b, mapped[1])
    x, y = (t if m else ops.unsqueeze(t, 0) for t, m in zip((a, b), mapped))
    if first == 1:
        x = ops.unsqueeze(x, -2)
    if second == 1:
        y = ops.unsqueeze(y, -1)
    rank = max(x._array.ndim, y._array.ndim) - 1
    out = ops.matmul(aligned(x, rank), aligned(y, rank))
    if second == 1:
        out = ops.squeeze(out, -1)
    if first == 1:
        out = ops.squeeze(out, -1 if second == 1 else -2)
    return out


def added_product(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """beta * c + alpha * (x @ y) for matrices, a matrix and a vector, or two vectors (their outer product)."""
    c, x, y, beta, alpha = args
    first, second = rank_of(x, mapped[1]), rank_of(y, mapped[2])
    made = first if first == second > 1 else 2 if first == second else 1  # the rank of the result
    c, x, y = (stacked(t, m, size) for t, m in zip((c, x, y), mapped))
    c = aligned(c, made)
    if first == second == 1:  # addr
        x, y = ops.unsqueeze(x, 2), ops.unsqueeze(y, 1)
    elif second == 1:  # addmv
        c, y = ops.unsqueeze(c, 2), ops.unsqueeze(y, 2)
    elif first == 3:  # baddbmm
        c = ops.expand(c, (size, *x._array.shape[1:-1], y._array.shape[-1]))
        out = records["baddbmm"](merged(c), merged(x), merged(y), beta, alpha)
        return parted(out, size)
    out = records["baddbmm"](c, x, y, beta, alpha)
    return ops.squeeze(out, 2) if second == 1 != first else out


def linearly(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """x @ weight.T + bias."""
    x, bias, weight = args
    by_x, by_bias, by_weight = mapped
    rank = rank_of(x, by_x)
    if not by_weight:
        if not by_bias:
            return op(x, bias, weight)
        return ops.add(op(stacked(x, by_x, size), None, weight), aligned(bias, rank))
    turned = ops.transpose(weight, 1, 2)
    count = math.prod(x._array.shape[by_x : by_x + rank - 1])
    if not by_x and bias is None:
        out = ops.matmul(ops.reshape(x, (1, count, x._array.shape[-1])), turned)
    else:
        x_rows = ops.reshape(stacked(x, by_x, size), (size, count, x._array.shape[-1]))
        if bias is None:
            out = ops.matmul(x_rows, turned)
        else:
            b = ops.unsqueeze(bias, 1) if by_bias else ops.reshape(bias, (1, 1, bias._array.shape[0]))
            out = records["baddbmm"](b, x_rows, turned, 1, 1)
    shape = x._array.shape[by_x:-1]
    return out if len(shape) == 1 else ops.reshape(out, (size, *shape, weight._array.shape[1]))


def twice_linear(op: Any, size: int, mapped: Any, args: Any) -> Any:
    x, y, weight = args
    if not mapped[2]:
        return folded("weight")(op, size, mapped, args)
    x, y, weight = all_stacked(op, size, mapped, args)
    (_, out, n, m), rows = weight._array.shape, x._array.shape[1]
    flat = ops.reshape(ops.permute(weight, (0, 2, 1, 3)), (size, n, out * m))
    mixed = ops.reshape(ops.matmul(x, flat), (size, rows, out, m))
    return ops.squeeze(ops.matmul(mixed, ops.unsqueeze(y, 3)), 3)


# -- convolution and norms -------------------------------------------------------------------------------------------


def convolved(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """A weight of all samples: the batch joins the images. Weights of their own: it joins the groups of channels."""
    x, weight, bias, *rest = args
    by_x, by_weight, by_bias = mapped
    transposed, groups = rest[3], rest[5]
    if not by_weight:
        out = (
            parted(op(merged(x), weight, None if by_bias else bias, *rest), size)
            if by_x
            else op(x, weight, None, *rest)
        )
        if not by_bias:
            return out
        return ops.add(out, ops.reshape(bias, (size, 1, -1, *[1] * (out._array.ndim - 2 - by_x))))
    if not by_x and groups == 1:  # more channels of results
        stays = x
        filters = merged(weight, 1 if transposed else 0)
    else:
        stays = merged(stacked(x, by_x, size), 1)
        filters, rest = merged(weight), [*rest[:5], groups * size]
    if bias is not None:
        bias = merged(stacked(bias, by_bias, size))
    return parted(op(stays, filters, bias, *rest), size, 1)


def convolved_weight(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """The gradient by a weight for each sample: the batch joins the groups, or the channels of one side."""
    x, small, *rest = args
    by_x, by_small = mapped
    groups = rest[4]
    if groups == 1 and not by_x:
        return parted(op(x, merged(small, 1), *rest), size)
    if groups == 1 and not by_small:
        return parted(op(merged(x, 1), small, *rest), size, 1)
    x, small = stacked(x, by_x, size), stacked(small, by_small, size)
    return parted(op(merged(x, 1), merged(small, 1), *rest[:4], groups * size), size)


def normalized(shape_of: Any) -> Any:
    """Norms (x, weight, bias, …): parameters of all samples go with the rows; others are applied afterwards.

    `shape_of(t, x)` gives a batch of parameters the shape in which it goes with a batch of results.
    """

    def rule(op: Any, size: int, mapped: Any, args: Any) -> Any:
        x, weight, bias, *rest = args
        by_x, by_weight, by_bias = mapped
        if x.dtype.itemsize == 2 and (by_weight or by_bias):
            return NotImplemented  # rounded once, at the end
        if not by_x or by_weight or by_bias:
            own = [None if m else t for t, m in zip((weight, bias), mapped[1:])]
            if by_weight:
                own[1] = None  # comes after the weight
            made = op(merged(x), *own, *rest) if by_x else op(x, *own, *rest)
            made = [parted(t, size) if by_x else stacked(t, False, size) for t in made]
            for t, m, kept, combine in ((weight, by_weight, own[0], ops.mul), (bias, by_bias, own[1], ops.add)):
                if t is not None and kept is None:
                    made[0] = combine(made[0], shape_of(t if m else ops.unsqueeze(t, 0), made[0]))
            return tuple(made)
        return each(op(merged(x), weight, bias, *rest), lambda t: parted(t, size))

    return rule


def normalized_backward(shape_of: Any, over: Any) -> Any:
    """The same of (cotangent, x, weight, mean, scale, …, wanted): gradients by parameters are sums within samples.

    `over(x, rest)` are the dimensions of a batch that they go over.
    """

    def rule(op: Any, size: int, mapped: Any, args: Any) -> Any:
        cotangent, x, weight, mean, scale, *rest, wanted = args
        cotangent, x, mean, scale = (stacked(args[i], mapped[i], size) for i in (0, 1, 3, 4))
        by_x = by_weight = None
        rows = merged(x)
        if wanted[0]:
            g, w = (ops.mul(cotangent, shape_of(weight, x)), None) if mapped[2] else (cotangent, weight)
            by_x = op(merged(g), rows, w, merged(mean), merged(scale), *rest, (True, False, False))[0]
            by_x = parted(by_x, size)
        if wanted[1]:  # the values before the weight, made anew: they may be differentiated once more
            values = records[op.name.removesuffix("_backward")](rows, None, None, *rest)[0]
            by_weight = ops.sum(ops.mul(cotangent, parted(values, size)), over(x, rest))
        return by_x, by_weight, ops.sum(cotangent, over(x, rest)) if wanted[2] else None

    return rule


def by_channel(*parameters: int) -> Any:
    """Operations on each channel, (N, C, …), with parameters (by number) of the channels: the batch joins the channels."""

    def rule(op: Any, size: int, mapped: Any, args: Any) -> Any:
        given = [
            t if not isinstance(t, Tensor) else merged(stacked(t, m, size), 0 if i in parameters else 1)
            for i, (t, m) in enumerate(zip(args, mapped))
        ]
        made = op(*given, *args[op.tensors :])
        return tuple([t if t is None else parted(t, size, 1 if t._array.ndim > 1 else 0) for t in made])

    return rule


def attended(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """Attention: the batch is one of the dimensions before the rows, or joins the first of two."""
    names = op.names
    q = names.index("q")
    rank = rank_of(args[q], mapped[q])
    given = []
    for name, t, m in zip(names, args, mapped):
        if isinstance(t, Tensor):
            short = name in ("totals",)
            if name in ("mask", "keep") and not m and rank_of(t, m) < rank:
                given.append(t)
                continue
            t = aligned(stacked(t, m, size), rank - short)
            if rank > 3:
                first = max(t._array.shape[1], 1) if name not in ("mask", "keep") else args[q]._array.shape[mapped[q]]
                t = merged(t if t._array.shape[1] == first else ops.expand(t, (size, first, *t._array.shape[2:])))
        given.append(t)
    made = op(*given, *args[op.tensors :])
    return each(made, lambda t: parted(t, size)) if rank > 3 else made
