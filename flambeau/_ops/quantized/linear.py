"""Linear layers with an integer weight: products of codes, or of the floats that they stand for."""

from __future__ import annotations

from typing import Any

from ..._backend import quantized_products
from ..._core.dtypes import float32, qint8, quint8
from ..._core.quantizers import choose_scale
from ..._core.state import GRAD, QUANTIZED, modes
from ..._tensor import Tensor, wrap
from ..records.rules import type_name
from ..registry import ops
from .quantization import dequantize, quantize_per_tensor_dynamic

_MANY = 1 << 16  # elements
_SEVEN_BITS = 0, 127  # codes of inputs, as PyTorch chooses them for layers that quantize their input


def dynamic_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A float tensor, rounded to 7 bits with a scale that fits it, times a quantized weight, as floats."""
    if x.dtype is not float32:
        raise RuntimeError(f"Quantize only works on Float Tensor, got {type_name(x.dtype)}")
    x = x.detach()
    packed = _packed(x, weight, bias) if x._array.size else None
    if packed is None:
        if x._array.size:
            x = dequantize(quantize_per_tensor_dynamic(x, quint8, True))
        return ops.linear(x, dequantize(weight), bias)
    array = x._array
    if array.size < _MANY:
        low, high = array.min(), array.max()
    else:  # by all cores
        low, high = ops.amin(x)._array, ops.amax(x)._array
    scale, zero_point = choose_scale(float(low), float(high), *_SEVEN_BITS)
    rows = array.reshape(-1, array.shape[-1])
    codes = quantized_products.quantized_rows(rows, scale, zero_point)
    made = packed.linear(codes, scale, zero_point, None if bias is None else bias._array)
    return wrap(made.reshape(*array.shape[:-1], made.shape[1]), float32)


def static_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A quantized tensor times a quantized weight, as floats."""
    packed = _packed(x, weight, bias) if x._array.size and x.dtype is quint8 else None
    quantizer = getattr(x._array, "quantizer", None)
    if packed is None or quantizer is None or quantizer.axis is not None:
        return ops.linear(dequantize(x), dequantize(weight), bias)
    array = x._array.integers()
    codes = quantized_products.padded_rows(array.reshape(-1, array.shape[-1]))
    made = packed.linear(codes, quantizer.scale, quantizer.zero_point, None if bias is None else bias._array)
    return wrap(made.reshape(*array.shape[:-1], made.shape[1]), float32)


def _packed(x: Tensor, weight: Tensor, bias: Tensor | None) -> quantized_products.Weight | None:
    """The weight as products of codes take it; None if they cannot, or if an operand is not plain."""
    k = x._k | weight._k | (0 if bias is None else bias._k)
    if (k & ~QUANTIZED) > GRAD or modes.on & ~GRAD or weight.dtype is not qint8 or weight._array.ndim != 2:
        return None
    if bias is not None and (bias.dtype is not float32 or bias._array.shape != weight._array.shape[:1]):
        return None
    array: Any = weight._array
    if not x._array.ndim or x._array.shape[-1] != array.shape[1]:
        return None
    quantizer = array.quantizer
    version = 0 if weight._storage is None else weight._storage.version
    found = array.packed
    if found is None or found[0] != version or found[1] is not quantizer:
        fits = quantizer.axis in (None, 0) and not quantizer.along(2)[1].any()
        made = quantized_products.Weight(array.integers(), quantizer.scale) if fits else None
        found = array.packed = version, quantizer, made
    return found[2]
