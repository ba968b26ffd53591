"""Rounding as quantization would do it, in floating point and with straight-through gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._backend.cpu import cpu
from ..._core.dtypes import FLOATING, float16, float32, int32, int64
from ..._core.quantizers import choose_scale
from ..._core.sizes import wrap_dim
from ..._tensor import Tensor, wrap
from ..making.conversion import host_array
from ..pointwise.rounding import rint_op
from ..records.declare import pointwise
from ..records.refusals import refusal
from ..records.rules import not_implemented, real_floating_only
from ..registry import expose, ops, public


def _integer(m: Any, x: Any, scale: Any, zero_point: Any) -> Any:
    return m.rint(x * (1.0 / scale)) + zero_point


def _fake(m: Any, x: Any, scale: Any, zero_point: Any, low: Any, high: Any) -> Any:
    q = _integer(m, x, scale, zero_point)
    q = m.where(q > low, q, low + m.zeros_like(q))  # NaN becomes the lowest
    q = m.where(q < high, q, high + m.zeros_like(q))
    return (q - zero_point) * scale


def _inside(m: Any, g: Any, x: Any, scale: Any, zero_point: Any, low: Any, high: Any) -> Any:
    q = _integer(m, x, scale, zero_point)
    return m.where((q >= low) & (q <= high), g, m.zeros_like(g))


expose("rint", rint_op.call, None, None)  # the name that formulas know
fake_op = pointwise(
    "fake_quantize", _fake, real_floating_only, {"x": _inside}, params=("low", "high"), public=False,
    backward_name="FakeQuantizePerTensorAffineCachemaskBackward0",
)  # fmt: skip


def _check(input: Tensor, quant_min: int, quant_max: int) -> None:
    if input.dtype.category != FLOATING:
        raise not_implemented("fake_quantize", input.dtype)
    if quant_min > quant_max:
        raise RuntimeError(f"fake_quantize: quant_min {quant_min} is greater than quant_max {quant_max}")


@refusal
def _check_zero_point(backend: Any, zero_point: Any, quant_min: int, quant_max: int) -> None:
    if ((zero_point < quant_min) | (zero_point > quant_max)).any():
        raise RuntimeError(f"fake_quantize: `zero_point` must be between {quant_min} and {quant_max}, got {zero_point}")


@public(method=False)
def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Tensor:
    """Values rounded to those that integers from quant_min to quant_max can stand for.

    Gradients pass unchanged where a value was inside that range, and are zero elsewhere.

    >>> import flambeau as torch
    >>> torch.fake_quantize_per_tensor_affine(torch.tensor([0.26, 9.0]), 0.1, 0, -10, 10)
    tensor([0.3000, 1.0000])
    """
    if isinstance(zero_point, float):
        raise TypeError("fake_quantize_per_tensor_affine(): argument 'zero_point' must be int or Tensor, not float")
    scale = scale.item() if isinstance(scale, Tensor) else float(scale)
    zero_point = zero_point.item() if isinstance(zero_point, Tensor) else int(zero_point)
    _check(input, quant_min, quant_max)
    _check_zero_point.check(cpu, np.asarray(zero_point), quant_min, quant_max)
    return fake_op.call(input, scale, zero_point, float(quant_min), float(quant_max))


@public(method=False)
def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """The same with a scale and a zero point for each index of dimension `axis`."""
    if scale.dtype is not float32:
        raise RuntimeError(f"Scale must be Float, found {scale.dtype}")
    if zero_point.dtype not in (int32, float32, float16):
        raise RuntimeError(f"Zero-point must be Int32, Float or Half, found {zero_point.dtype}")
    if scale._array.ndim != 1 or zero_point._array.shape != scale._array.shape:
        raise RuntimeError("scale and zero-point need to have the same dimensions")
    shape = input._array.shape
    axis = wrap_dim(axis, len(shape))
    if scale._array.size != shape[axis]:
        raise RuntimeError(
            f"dimensions of scale and zero-point are not consistent with input: {scale._array.size} for {shape[axis]}"
        )
    _check(input, quant_min, quant_max)
    _check_zero_point(zero_point, quant_min, quant_max)
    places = [-1 if i == axis else 1 for i in range(len(shape))]
    along = [ops.reshape(ops.to(t, input.dtype), places) for t in (scale.detach(), zero_point.detach())]
    return fake_op.call(input, *along, float(quant_min), float(quant_max))


@public("_choose_qparams_per_tensor", method=False)
def _choose_qparams_per_tensor(input: Tensor, reduce_range: bool = False) -> tuple[float, int]:
    """The scale and zero point that fit a tensor's values to the integers from 0 to 255 (127 if reduced)."""
    array = input._array
    return choose_scale(float(array.min()), float(array.max()), 0, 127 if reduce_range else 255)


@public(method=False)
def choose_qparams_optimized(
    input: Tensor, numel: int, n_bins: int, ratio: float, bit_width: int
) -> tuple[Tensor, Tensor]:
    """Bounds (largest, smallest) between which rounding to 2**bit_width values loses least; found greedily."""
    x = input._array[:numel].astype(np.float32)
    low, high = np.float32(x.min()), np.float32(x.max())
    step = np.float32((high - low) / n_bins)
    levels = 2**bit_width - 1

    def loss(bottom: Any, top: Any) -> float:
        scale = max((top - bottom) / np.float32(levels), np.float32(1e-8))
        rounded = np.clip(np.rint((x - bottom) / scale), 0, levels) * scale + bottom
        return float(np.square(x - rounded).sum())

    best, (bottom, top) = (low, high), (low, high)
    best_loss = found = loss(low, high)
    smallest = np.float32((1 - ratio) * n_bins) * step
    while top - bottom > smallest and step > 0:
        raised, lowered = loss(bottom + step, top), loss(bottom, top - step)
        if found < min(raised, lowered, best_loss):  # narrower on either side would be worse
            best, best_loss = (bottom, top), found
        if raised < lowered:
            bottom, found = bottom + step, raised
        else:
            top, found = top - step, lowered
    return wrap(np.array([best[1]], np.float32), float32), wrap(np.array([best[0]], np.float32), float32)


def _write(t: Tensor, values: Any) -> None:
    """Values of as many channels as there turned out to be into a tensor that may have been empty."""
    made = wrap(np.asarray(values, t._array.dtype).reshape(-1), t.dtype)
    if t._array.shape != made._array.shape:
        t.resize_(made._array.shape)
    ops.copy_(t, made)


def _observe(
    input: Tensor, running_min: Tensor, running_max: Tensor, averaging: float, axis: int | None
) -> tuple[Any, Any]:
    """Moves the running bounds a step towards those of `input`; infinite or empty ones begin with them."""
    x = input.detach()
    dims = tuple(i for i in range(x.dim()) if i != axis)
    seen = [host_array(bound(x, dims)).astype(np.float32).reshape(-1) for bound in (ops.amin, ops.amax)]
    result = []
    for held, now in zip((running_min, running_max), seen):
        before = host_array(held).reshape(-1)
        fresh = before.size != now.size or np.isinf(before).any()
        moved = now if fresh else before + np.float32(averaging) * (now - before)
        _write(held, moved)
        result.append(moved)
    return result[0], result[1]


@public(method=False)
def fused_moving_avg_obs_fake_quant(
    input: Tensor,
    observer_on: Tensor,
    fake_quant_on: Tensor,
    running_min: Tensor,
    running_max: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    averaging_const: float,
    quant_min: int,
    quant_max: int,
    ch_axis: int,
    per_row_fake_quant: bool = False,
    symmetric_quant: bool = False,
) -> Tensor:
    """Observes the range of values (moving averages), chooses scale and zero point by it, and rounds.

    `running_min`, `running_max`, `scale` and `zero_point` are changed in place while `observer_on` is 1.
    """
    axis = wrap_dim(ch_axis, input._array.ndim) if per_row_fake_quant else None
    if int(observer_on.item()):
        bounds = _observe(input, running_min, running_max, averaging_const, axis)
        chosen = [
            choose_scale(low, high, quant_min, quant_max, symmetric_quant, single=True)
            for low, high in zip(*(b.tolist() for b in bounds))
        ]
        _write(scale, [s for s, _ in chosen])
        _write(zero_point, [z for _, z in chosen])
    if not int(fake_quant_on.item()):
        return input
    if axis is not None:
        return fake_quantize_per_channel_affine(input, scale, ops.to(zero_point, int32), axis, quant_min, quant_max)
    return fake_quantize_per_tensor_affine(input, scale, ops.to(zero_point, int64), quant_min, quant_max)


SCHEMAS = """
fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int quant_min, int quant_max) -> Tensor
fake_quantize_per_tensor_affine.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, int quant_min, int quant_max) -> Tensor
fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max) -> Tensor
_choose_qparams_per_tensor(Tensor self, bool reduce_range=False) -> (float, int)
choose_qparams_optimized(Tensor input, int numel, int n_bins, float ratio, int bit_width) -> (Tensor, Tensor)
fused_moving_avg_obs_fake_quant(Tensor self, Tensor observer_on, Tensor fake_quant_on, Tensor(a!) running_min, Tensor(b!) running_max, Tensor(c!) scale, Tensor(d!) zero_point, float averaging_const, int quant_min, int quant_max, int ch_axis, bool per_row_fake_quant=False, bool symmetric_quant=False) -> Tensor
"""
