"""Batch norm over the batches of several processes as one."""

from __future__ import annotations

import sys
from typing import Any

from ..._core.dtypes import float64
from ..._ops.registry import ops
from ..._tensor import Tensor
from ...autograd.function import Function, once_differentiable
from .. import functional as F


def group_of(process_group: Any) -> Any:
    """The group whose batches count as one; None if this process is alone."""
    distributed: Any = sys.modules.get("flambeau.distributed")  # without it there is no group
    if distributed is None or not distributed.is_initialized():
        return None
    group = distributed.distributed_c10d.current(process_group)
    return group if group.size() > 1 else None


def _reduce(tensor: Tensor, group: Any) -> None:
    sys.modules["flambeau.distributed"].all_reduce(tensor, group=group)


def _sums(x: Tensor) -> Tensor:
    """The sum over everything but channels, with at least single precision."""
    dims = [0, *range(2, x.dim())]
    return x.double().sum(dims)


class SyncBatchNorm(Function):
    """Statistics over all processes; their gradients as well."""

    @staticmethod
    def forward(
        ctx: Any, input: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any, eps: float, momentum: float,
        group: Any,
    ) -> Tensor:  # fmt: skip
        channels = input.shape[1]
        own = input.numel() // max(channels, 1)
        found = ops.cat([_sums(input), ops.full((1,), own, dtype=float64, device=input.device)])
        _reduce(found, group)
        count = int(found[-1].item())
        if count <= 1:
            raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
        mean = found[:-1] / count
        shape = [1, channels, *[1] * (input.dim() - 2)]
        squares = _sums((input.double() - mean.view(shape)).square())
        _reduce(squares, group)
        variance = squares / count
        if running_mean is not None:
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
            running_var.lerp_((squares / (count - 1)).to(running_var.dtype), momentum)
        kind = input.dtype if weight is None else weight.dtype
        mean, variance = mean.to(kind), variance.to(kind)
        ctx.save_for_backward(input, weight, mean, ops.rsqrt(variance + eps))
        ctx.group, ctx.count, ctx.shape = group, count, shape
        return F.batch_norm(input, mean, variance, weight, bias, False, 0.0, eps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        input, weight, mean, inverse = ctx.saved_tensors
        shape = ctx.shape
        normal = (input - mean.view(shape)) * inverse.view(shape)
        sums = ops.cat([_sums(g), _sums(g * normal)])
        own = sums.to(mean.dtype, copy=True)
        channels = input.shape[1]
        grad_input = None
        if ctx.needs_input_grad[0]:
            _reduce(sums, ctx.group)
            of_g, of_product = (sums / ctx.count).to(mean.dtype).split(channels)
            grad_input = g - of_g.view(shape) - normal * of_product.view(shape)
            factor = inverse if weight is None else inverse * weight
            grad_input = (grad_input * factor.view(shape)).to(input.dtype)
        grad_weight = own[channels:] if ctx.needs_input_grad[1] else None
        grad_bias = own[:channels] if ctx.needs_input_grad[2] else None
        return grad_input, grad_weight, grad_bias, None, None, None, None, None
