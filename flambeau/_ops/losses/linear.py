"""The cross-entropy of a linear map, as a whole or in chunks of the batch that never hold all scores at once."""

from __future__ import annotations

import math
from typing import Any

from ..._autograd.functions import Function
from ..._core.dtypes import float32, int64
from ..._core.state import local
from ..._errors.frames import warn_user
from ..._tensor import Tensor
from ..records.replay import gradients
from ..registry import functions, ops, relabel
from .classes import cross_entropy
from .elements import check_reduction, functional


def _scores(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return functions["nn.functional.linear"](input, weight, bias)


def _losses(input: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, factors: Any, skipped: int) -> Tensor:
    """The losses of some rows; those of 16-bit operands are computed and returned in single precision."""
    if input.dtype.itemsize == 2:
        input, weight = ops.to_dtype(input, float32), ops.to_dtype(weight, float32)
        bias = None if bias is None else ops.to_dtype(bias, float32)
    factors = None if factors is None else ops.to_dtype(factors, input.dtype)
    return cross_entropy(_scores(input, weight, bias), target, factors, ignore_index=skipped, reduction="none")


def _cut(options: Any, input: Tensor, classes: int) -> list[tuple[int, int]]:
    rows, features = input._array.shape
    if not rows:
        return []
    size = options._adjust(rows, features, classes, input.dtype, input.device).batch_chunk_size
    return [(low, min(low + size, rows)) for low in range(0, rows, size)]


class _InChunks(Function):
    """The losses of all rows, chunk by chunk; `apart` if they stay so. Without `again`, gradients are computed once only."""

    @staticmethod
    def forward(
        ctx: Any, input: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, factors: Tensor | None,
        skipped: int, cuts: Any, apart: bool, again: bool,
    ) -> Tensor:  # fmt: skip
        parts = []
        for low, high in cuts or [(0, 0)]:
            rows, chosen = (ops.narrow(t, 0, low, high - low) for t in (input, target))
            parts.append(_losses(rows, weight, bias, chosen, factors, skipped))
        ctx.save_for_backward(input, weight, bias, target, factors)
        ctx.rest, ctx.used = (skipped, cuts, apart), None if again else False
        return ops.cat(parts)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        """Each chunk's scores are computed again; its gradients are added up."""
        if ctx.used:
            raise RuntimeError(
                "linear_cross_entropy: retain_graph=True / double backward are not supported by default: use "
                "LinearCrossEntropyOptions(allow_retain_graph=True)"
            )
        ctx.used = None if ctx.used is None else True
        input, weight, bias, target, factors = ctx.saved_tensors
        skipped, cuts, apart = ctx.rest
        tensors = [input, weight] if bias is None else [input, weight, bias]
        needs = ctx.needs_input_grad[: len(tensors)]

        def function(chosen: Tensor) -> Any:
            """The losses as a function of the rows, the weight and the bias if there is one."""
            return lambda x, w, b=None: _losses(x, w, b, chosen, factors, skipped)

        none = [None] * (9 - len(tensors))
        if local.grad:
            return *gradients(function(target), tensors, [g], needs), *none
        d, by_input, sums = input.dtype, [], [None] * (len(tensors) - 1)
        if not apart:  # 16-bit gradients are rounded once, when they are summed; those of single losses in each chunk
            tensors = [ops.to_dtype(t, g.dtype) for t in tensors]
        for low, high in cuts:
            rows, chosen, share = (ops.narrow(t, 0, low, high - low) for t in (tensors[0], target, g))
            found = gradients(function(chosen), [rows, *tensors[1:]], [share], needs)
            by_input.append(found[0])
            sums = [a if b is None else b if a is None else a + b for a, b in zip(sums, found[1:])]
        made = [ops.cat(by_input) if needs[0] else None, *sums]
        return *[None if t is None else ops.to_dtype(t, d) for t in made], *none


def _reduced(losses: Tensor, target: Tensor, factors: Tensor | None, skipped: int, reduction: str) -> Tensor:
    if reduction == "none":
        return losses
    total = ops.sum(losses)
    if reduction == "sum":
        return total
    kept = ops.ne(target, skipped)
    if factors is None:
        return total / ops.to_dtype(ops.sum(kept), total.dtype)
    if factors.dtype is not losses.dtype:
        factors = ops.to_dtype(factors, losses.dtype)
    used = ops.index_select(factors, 0, ops.where(kept, target, ops.zeros_like(target)))
    return total / ops.sum(used * ops.to_dtype(kept, used.dtype))


@functional
def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
    weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None,
    label_smoothing: float = 0.0, options: Any = None,
) -> Tensor:  # fmt: skip
    """The cross-entropy of a linear map of the input; with `options` it is computed in chunks of the batch.

    >>> import flambeau as torch
    >>> x, weight, y = torch.zeros(3, 2), torch.zeros(5, 2), torch.tensor([0, 1, 4])
    >>> torch.nn.functional.linear_cross_entropy(x, weight, y)
    tensor(1.6094)
    """
    ndim, extra = input._array.ndim, linear_weight._array.shape[:-1]
    if ndim not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {ndim}")
    features = input._array.shape[-1]
    if linear_weight._array.shape[-1] != features:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{features} and {linear_weight._array.shape[-1]}, respectively"
        )
    if len(extra) > 1 and ndim == 1:
        raise RuntimeError(f"a linear_weight of shape {tuple(linear_weight._array.shape)} requires batched input")
    if linear_bias is not None and linear_bias._array.shape != extra:
        raise RuntimeError(
            f"expected linear_bias shape {tuple(extra)}, that of linear_weight without in_features, but got "
            f"{tuple(linear_bias._array.shape)}"
        )
    skipped = -100 if ignore_index is None else ignore_index
    if options is not None:
        if len(extra) == 1 and not label_smoothing and target.dtype is int64:
            check_reduction(reduction)
            batched = ndim == 2
            x, y = (input, target) if batched else (ops.unsqueeze(input, 0), ops.reshape(target, (1,)))
            given = x, linear_weight, linear_bias, y, weight, skipped, _cut(options, x, extra[0]), reduction == "none"
            losses = relabel(_InChunks.apply(*given, options.allow_retain_graph), "LinearCrossEntropyBackward0")
            out = _reduced(losses, y, weight, skipped, reduction)
            if out.dtype is not input.dtype:
                out = ops.to_dtype(out, input.dtype)
            return out if batched or reduction != "none" else ops.reshape(out, ())
        warn_user(
            "linear_cross_entropy: options are ignored: chunks need class numbers as targets, a linear_weight of two "
            "dimensions (no out_features beside the classes) and no label_smoothing"
        )
    flat = linear_weight if len(extra) == 1 else ops.reshape(linear_weight, (math.prod(extra), features))
    scores = _scores(input, flat, None if linear_bias is None else ops.reshape(linear_bias, (-1,)))
    if len(extra) > 1:
        scores = ops.reshape(scores, (*input._array.shape[:-1], *extra))
    return cross_entropy(scores, target, weight, None, skipped, None, reduction, label_smoothing)


SCHEMAS = """
linear_cross_entropy  # composite
"""
