"""Gradients of convolutions as functions of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._autograd.modes import enable_grad, is_grad_enabled
from .._ops.registry import ops
from .._tensor import Tensor
from ..autograd import grad

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _gradients(name: str) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """(with respect to the input, with respect to the weight) of one convolution."""

    def of_input(
        input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:  # fmt: skip
        with enable_grad():
            x = grad_output.new_zeros(input_size, requires_grad=True)
            out = getattr(ops, name)(x, weight, None, stride, padding, dilation, groups)
        return grad(out, x, grad_output, create_graph=is_grad_enabled())[0]

    def of_weight(
        input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:  # fmt: skip
        with enable_grad():
            weight = grad_output.new_zeros(weight_size, requires_grad=True)
            out = getattr(ops, name)(input, weight, None, stride, padding, dilation, groups)
        return grad(out, weight, grad_output, create_graph=is_grad_enabled())[0]

    for function, what in ((of_input, "input"), (of_weight, "weight")):
        function.__name__ = function.__qualname__ = f"{name}_{what}"
        function.__doc__ = f"The gradient of `{name}` with respect to its {what}, which has the given size."
    return of_input, of_weight


conv1d_input, conv1d_weight = _gradients("conv1d")
conv2d_input, conv2d_weight = _gradients("conv2d")
conv3d_input, conv3d_weight = _gradients("conv3d")
