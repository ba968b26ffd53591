"""Functions of quantized tensors: they compute with the values, and round the results again."""

from __future__ import annotations

from typing import Any

from ...._core.dtypes import dtype as _dtype
from ...._core.dtypes import qint8, quint8
from ...._ops.quantized.linear import static_linear
from ...._ops.registry import functions, ops
from ...._tensor import Tensor

__all__ = [
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool2d", "avg_pool3d", "celu", "clamp", "conv1d", "conv2d", "conv3d", "elu",
    "hardsigmoid", "hardswish", "hardtanh", "interpolate", "leaky_relu", "linear", "max_pool1d", "max_pool2d", "threshold", "upsample",
    "upsample_bilinear", "upsample_nearest",
]  # fmt: skip


def _check(name: str, input: Tensor) -> None:
    if not input.is_quantized:
        raise ValueError(f"Input to 'quantized.{name}' must be quantized!")


def _applied(
    name: str, input: Tensor, *args: Any, scale: float | None = None, zero_point: int | None = None, **named: Any
) -> Any:
    """A function of `nn.functional` on the values. Its result has the scale and zero point of the input unless others are given."""
    _check(name, input)
    made = functions[f"nn.functional.{name}"](input.dequantize(), *args, **named)
    scale = input.q_scale() if scale is None else scale
    return ops.quantize_per_tensor(made, scale, input.q_zero_point() if zero_point is None else zero_point, input.dtype)


def avg_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Any:  # fmt: skip
    """The means of windows of quantized images."""
    return _applied("avg_pool2d", input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Any:  # fmt: skip
    """The means of windows of quantized volumes."""
    return _applied("avg_pool3d", input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Any:
    """Means of windows that give the wanted size."""
    return _applied("adaptive_avg_pool2d", input, output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Any:
    """Means of windows that give the wanted size."""
    return _applied("adaptive_avg_pool3d", input, output_size)


def _convolution(n: int) -> Any:
    shown = f"(N, C, {', '.join('DHW'[-n:])})" if n > 1 else "(N, C, L)"

    def convolve(
        input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1, padding_mode: str = "zeros", scale: float = 1.0, zero_point: int = 0, dtype: _dtype = quint8,
    ) -> Any:  # fmt: skip
        if padding_mode != "zeros":
            raise NotImplementedError("Only zero-padding is supported!")
        for kind, wanted, name in ((input.dtype, quint8, "activation"), (weight.dtype, qint8, "weight")):
            if kind is not wanted:
                raise NotImplementedError(f"Only {wanted} is supported for {name} tensor!")
        if input.ndim != n + 2:
            raise ValueError(f"Input shape must be `{shown}`!")
        given = weight.dequantize(), bias, stride, padding, dilation, groups
        return _applied(f"conv{n}d", input, *given, scale=scale, zero_point=zero_point)

    convolve.__name__ = convolve.__qualname__ = f"conv{n}d"
    convolve.__doc__ = f"A convolution over {n} dimensions of a quint8 tensor with a qint8 weight and a float bias."
    return convolve


conv1d, conv2d, conv3d = (_convolution(n) for n in (1, 2, 3))


def interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Any:
    """Quantized images of another size."""
    return _applied("interpolate", input, size, scale_factor, mode, align_corners)


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Any:
    """The older name of `interpolate`."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Any:
    """`interpolate` of four neighbours, with the corners where they were."""
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Any:
    """`interpolate` by the nearest element."""
    return interpolate(input, size, scale_factor)


def linear(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, scale: float | None = None, zero_point: int | None = None
) -> Any:
    """input @ weight.T + bias of quantized matrices.

    >>> import flambeau as torch
    >>> x = torch.quantize_per_tensor(torch.tensor([[1.0, 2.0]]), 0.1, 0, torch.quint8)
    >>> w = torch.quantize_per_tensor(torch.tensor([[0.5, 0.5]]), 0.1, 0, torch.qint8)
    >>> torch.ao.nn.quantized.functional.linear(x, w).dequantize()
    tensor([[1.5000]])
    """
    _check("linear", input)
    made = static_linear(input, weight, bias)
    scale = input.q_scale() if scale is None else scale
    return ops.quantize_per_tensor(made, scale, input.q_zero_point() if zero_point is None else zero_point, input.dtype)


def max_pool1d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest elements of windows."""
    if return_indices:
        raise NotImplementedError("return_indices is not yet implemented!")
    return _applied("max_pool1d", input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest elements of windows of images."""
    if return_indices:
        raise NotImplementedError("return_indices is not yet implemented!")
    return _applied("max_pool2d", input, kernel_size, stride, padding, dilation, ceil_mode)


def celu(input: Tensor, scale: float, zero_point: int, alpha: float = 1.0) -> Any:
    """`celu`, with a scale and a zero point for the result."""
    return _applied("celu", input, alpha, scale=scale, zero_point=zero_point)


def elu(input: Tensor, scale: float, zero_point: int, alpha: float = 1.0) -> Any:
    """`elu`, with a scale and a zero point for the result."""
    return _applied("elu", input, alpha, scale=scale, zero_point=zero_point)


def hardswish(input: Tensor, scale: float, zero_point: int) -> Any:
    """`hardswish`, with a scale and a zero point for the result."""
    return _applied("hardswish", input, scale=scale, zero_point=zero_point)


def leaky_relu(
    input: Tensor, negative_slope: float = 0.01, inplace: bool = False, scale: float | None = None,
    zero_point: int | None = None,
) -> Any:  # fmt: skip
    """`leaky_relu`; with a scale and a zero point, if they are given, for the result."""
    made = _applied("leaky_relu", input, negative_slope, scale=scale, zero_point=zero_point)
    return input.copy_(made) if inplace and scale is None else made


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """The elements between two bounds."""
    made = _applied("hardtanh", input, min_val, max_val)
    return input.copy_(made) if inplace else made


def hardsigmoid(input: Tensor, inplace: bool = False) -> Any:
    """`hardsigmoid`, whose results use the whole range of the dtype."""
    made = _applied("hardsigmoid", input, scale=1 / 256, zero_point=-128 if input.dtype is qint8 else 0)
    return input.copy_(made) if inplace else made


def threshold(input: Tensor, threshold: float, value: float) -> Any:
    """A value instead of elements that are not above a threshold."""
    return _applied("threshold", input, threshold, value)


def clamp(input: Tensor, min_: float, max_: float) -> Any:
    """The elements between two bounds."""
    _check("clamp", input)
    return hardtanh(input, min_, max_)
