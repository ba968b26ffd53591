"""Functions of layers whose gradient in PyTorch is not the derivative of what they compute."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._autograd.functions import Function
from ..._ops.registry import ops
from ..._tensor import Tensor, wrap


def _windows(channels: int, before: int, after: int) -> Any:
    """(C, C): 1 where a channel lies at most `before` below or `after` above another."""
    gap = np.arange(channels) - np.arange(channels)[:, None]
    return (gap >= -before) & (gap <= after)


class CrossMapLRN2d(Function):
    """x / (k + alpha / size * the sum of squares over neighbouring channels)**beta, of (N, C, H, W).

    As in PyTorch the first channel stays in all windows that have passed it, and the gradient sums over windows that
    reach further down than up: models were trained so.
    """

    @staticmethod
    def _summed(x: Tensor, windows: Any) -> Tensor:
        """Sums over windows of channels."""
        n, channels, height, width = x.shape
        flat = ops.reshape(x, (n, channels, height * width))
        chosen = wrap(windows.astype(x.dtype.numpy), x.dtype)
        return ops.reshape(ops.matmul(chosen.to(x.device), flat), x.shape)

    @staticmethod
    def forward(ctx: Any, input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> Tensor:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        ctx.size, ctx.alpha, ctx.beta = size, alpha, beta
        reach = int((size - 1) / 2 + 1) - 1
        windows = _windows(input.shape[1], reach, reach)
        windows[reach + 1 :, 0] = True
        scale = CrossMapLRN2d._summed(input * input, windows) * (alpha / size) + k
        output = input * ops.pow(scale, -beta)
        ctx.save_for_backward(input, output, scale)
        return output

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Any:
        input, output, scale = ctx.saved_tensors
        before = int(ctx.size - (ctx.size - 1) / 2)
        windows = _windows(input.shape[1], before, ctx.size - 1 - before)
        shares = CrossMapLRN2d._summed(grad_output * output / scale, windows)
        own = grad_output * ops.pow(scale, -ctx.beta)
        return own - input * shares * (2 * ctx.alpha * ctx.beta / ctx.size), None, None, None, None
