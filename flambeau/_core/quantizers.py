"""How quantized tensors stand for numbers: value = (integer - zero point) * scale, for all elements or by channel."""

from __future__ import annotations

from typing import Any

import numpy as np

from .dtypes import dtype, qint8, qint32, quint2x4, quint4x2, quint8
from .layouts import _Named


class qscheme(_Named):
    """The kind of a quantization: for a whole tensor or by channel, symmetric about zero or not."""

    __slots__ = ()
    __module__ = "flambeau"  # where users find them

    def __reduce__(self) -> tuple[Any, ...]:
        return _by_name, (self.name,)


def _by_name(name: str) -> qscheme:
    return next(scheme for scheme in SCHEMES if scheme.name == name)


per_tensor_affine = qscheme("per_tensor_affine")
per_channel_affine = qscheme("per_channel_affine")
per_tensor_symmetric = qscheme("per_tensor_symmetric")
per_channel_symmetric = qscheme("per_channel_symmetric")
per_channel_affine_float_qparams = qscheme("per_channel_affine_float_qparams")
SCHEMES = (
    per_tensor_affine, per_channel_affine, per_tensor_symmetric, per_channel_symmetric, per_channel_affine_float_qparams
)  # fmt: skip

# The integers of each dtype: (smallest, largest).
LIMITS: dict[dtype, tuple[int, int]] = {
    quint8: (0, 255), qint8: (-128, 127), qint32: (-(2**31), 2**31 - 1), quint4x2: (0, 15), quint2x4: (0, 3),
}  # fmt: skip
_SMALLEST_SCALE = float(np.float32(6.1e-5))


class Quantizer:
    """Scale and zero point: numbers, or (by channel) arrays along `axis`. Shared, never changed."""

    __slots__ = ("axis", "scale", "scheme", "zero_point")

    def __init__(self, scheme: qscheme, scale: Any, zero_point: Any, axis: int | None = None):
        self.scheme, self.scale, self.zero_point, self.axis = scheme, scale, zero_point, axis

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Quantizer)
            and self.scheme is other.scheme
            and self.axis == other.axis
            and bool(np.array_equal(self.scale, other.scale))
            and bool(np.array_equal(self.zero_point, other.zero_point))
        )

    __hash__ = None  # type: ignore[assignment]

    def along(self, ndim: int) -> tuple[Any, Any]:
        """(scale, zero point) as float32 values that broadcast against an array."""
        if self.axis is None:
            return np.float32(self.scale), np.float32(self.zero_point)
        shape = [1] * ndim
        shape[self.axis] = -1
        return self.scale.astype(np.float32).reshape(shape), self.zero_point.astype(np.float32).reshape(shape)


def choose_scale(
    low: float, high: float, qmin: int, qmax: int, symmetric: bool = False, single: bool = False
) -> tuple[float, int]:
    """(scale, zero point) so that values from `low` to `high` fill the integers from `qmin` to `qmax`.

    Zero is always exact. With `single` the scale is rounded to float32 before the zero point is found.
    """
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    if symmetric and low < 0 < high:
        bottom, top = -((qmax - qmin) // 2 + 1), (qmax - qmin) // 2
        largest = max(abs(low / bottom), abs(high / top))
        low, high = largest * bottom, largest * top
    scale = (high - low) / (qmax - qmin)
    if not 1e-37 < scale < 1e37:  # float32 may not hold it, or its inverse
        with np.errstate(all="ignore"):
            if np.float32(scale) == 0 or np.isinf(np.float32(1) / np.float32(scale)):
                scale = 0.1
    if scale < _SMALLEST_SCALE:
        growth = _SMALLEST_SCALE / scale
        scale = _SMALLEST_SCALE
        if low == 0:
            high = scale * (qmax - qmin)
        elif high == 0:
            low = -scale * (qmax - qmin)
        else:
            low, high = low * growth, high * growth
    if single:
        scale = float(np.float32(scale))
    by_low, by_high = qmin - low / scale, qmax - high / scale
    chosen = by_low if abs(qmin) + abs(low / scale) < abs(qmax) + abs(high / scale) else by_high
    return scale, round(min(max(chosen, qmin), qmax))
