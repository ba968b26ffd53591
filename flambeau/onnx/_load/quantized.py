"""ONNX operators on codes of quantized tensors."""

from __future__ import annotations

from typing import Any

from ..._core import dtypes
from ..._core.info import finfo, iinfo
from ..._ops.registry import ops
from ..._tensor import Tensor
from ..errors import OnnxModelError
from .layers import conv
from .operators import Node, axis_of, operator
from .tensors import element_type

__all__: list[str] = []


def _spread(node: Node, scale: Tensor, x: Tensor) -> Tensor:
    """Scales or zero points in a shape that broadcasts with a tensor: one number, one along an axis, or one for each block."""
    if scale.ndim <= 1 and scale.numel() == 1:
        return scale.reshape(())
    axis, block = axis_of(node.int("axis", 1), x.ndim), node.int("block_size", 0)
    if block:
        return ops.repeat_interleave(scale, block, axis).narrow(axis, 0, x.shape[axis])
    if scale.ndim != 1:
        raise OnnxModelError(f"scales of the shape {list(scale.shape)} need a block_size")
    return scale.reshape([-1 if i == axis else 1 for i in range(x.ndim)])


def _codes(x: Tensor, scale: Tensor, zero: Tensor | None, kind: Any) -> Any:
    steps = x / scale.to(x.dtype)
    if kind in dtypes.FLOAT8:
        top = finfo(kind).max
        return ops.clamp(steps, -top, top).to(kind)
    bounds = iinfo(kind)
    steps = ops.round(steps.float())
    steps = steps if zero is None else steps + zero.float()
    return ops.clamp(steps, bounds.min, bounds.max).to(dtypes.int32).to(kind)


@operator("QuantizeLinear", fixed=(1, 2))
def quantize(node: Node, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Any:
    number = node.int("output_dtype", 0)
    kind = zero.dtype if zero is not None else element_type(number) if number else dtypes.uint8
    if number in (21, 22):
        raise OnnxModelError("quantization to four bits is not supported")
    return _codes(x, _spread(node, scale, x), None if zero is None else _spread(node, zero, x), kind)


@operator("DequantizeLinear", fixed=(1, 2))
def dequantize(node: Node, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Any:
    kind = scale.dtype if not node.int("output_dtype", 0) else element_type(node.int("output_dtype"))
    value = x.float() if x.dtype in dtypes.FLOAT8 else x.to(dtypes.int32)
    if zero is not None and x.dtype not in dtypes.FLOAT8:
        value = value - _spread(node, zero, x).to(dtypes.int32)
    return (value.float() * _spread(node, scale, x).float()).to(kind)


@operator("DynamicQuantizeLinear")
def quantize_dynamically(node: Node, x: Tensor) -> Any:
    low, high = ops.clamp(ops.amin(x), max=0), ops.clamp(ops.amax(x), min=0)
    scale = (high - low) / 255
    zero = ops.clamp(ops.round(-low / scale), 0, 255).to(dtypes.uint8)
    return _codes(x, scale, zero, dtypes.uint8), scale, zero


def _shifted(x: Tensor, zero: Tensor | None, axis: int) -> Any:
    """Codes less their zero point, as whole numbers; those of rows or columns lie along an axis."""
    value = x.to(dtypes.int32)
    if zero is None:
        return value
    zero = zero.to(dtypes.int32)
    if zero.ndim == 1 and zero.numel() > 1:
        zero = zero.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
    return value - (zero.reshape(()) if zero.numel() == 1 else zero)


@operator("MatMulInteger", fixed=(2, 3))
def matmul_integer(node: Node, x: Tensor, y: Tensor, x_zero: Tensor | None = None, y_zero: Tensor | None = None) -> Any:
    return ops.matmul(_shifted(x, x_zero, -2), _shifted(y, y_zero, -1))


@operator("QLinearMatMul", fixed=(1, 2, 4, 5, 6, 7))
def qlinear_matmul(
    node: Node,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    y: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    scale: Tensor,
    zero: Tensor,
) -> Any:
    whole = ops.matmul(_shifted(x, x_zero, -2), _shifted(y, y_zero, -1))
    rows = x_scale.unsqueeze(-1) if x_scale.ndim == 1 and x_scale.numel() > 1 else x_scale
    return _codes(whole.float() * (rows * y_scale).float(), scale, zero, zero.dtype)


def _whole_conv(node: Node, x: Tensor, weight: Tensor, x_zero: Tensor | None, w_zero: Tensor | None) -> Any:
    """The convolution of codes. Sums of products of eight bits are exact in double precision."""
    left, right = _shifted(x, x_zero, 1), _shifted(weight, w_zero, 0)
    return conv(node, left.double(), right.double())


@operator("ConvInteger", fixed=(2, 3))
def conv_integer(
    node: Node, x: Tensor, weight: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None
) -> Any:
    return _whole_conv(node, x, weight, x_zero, w_zero).to(dtypes.int32)


@operator("QLinearConv", fixed=(1, 2, 4, 5, 6, 7))
def qlinear_conv(
    node: Node,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    weight: Tensor,
    w_scale: Tensor,
    w_zero: Tensor,
    scale: Tensor,
    zero: Tensor,
    bias: Tensor | None = None,
) -> Any:
    whole = _whole_conv(node, x, weight, x_zero, w_zero)
    shape = [1, -1] + [1] * (whole.ndim - 2)
    whole = whole if bias is None else whole + bias.double().reshape(shape)
    factor = (x_scale * w_scale).double()
    factor = factor.reshape(shape) if factor.numel() > 1 else factor.reshape(())
    return _codes((whole * factor).float(), scale, zero, zero.dtype)
