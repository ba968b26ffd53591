"""Limits of the number types: `finfo` and `iinfo`."""

from __future__ import annotations

import builtins
from typing import Any

import ml_dtypes
import numpy as np

from .dtypes import BOOL, COMPLEX, FLOATING, PYTHON_TYPES, default, dtype


class finfo:
    """The limits of a floating-point dtype (the default one if none is given).

    >>> import flambeau as torch
    >>> torch.finfo(torch.float16).max
    65504.0
    """

    __slots__ = ("_dtype", "bits", "eps", "max", "min", "resolution", "smallest_normal", "tiny")

    def __init__(self, type: dtype | builtins.type | None = None):
        d = default.float if type is None else PYTHON_TYPES.get(type, type)
        if not isinstance(d, dtype):
            raise TypeError(f"finfo(): argument 'type' (position 1) must be torch.dtype, not {d.__class__.__name__}")
        if d.category == COMPLEX:
            d = d.to_real()
        if d.category != FLOATING:
            raise TypeError(f"finfo() requires a floating point input type, got {d}; integers have iinfo")
        info = ml_dtypes.finfo(d.numpy)
        self._dtype = d
        self.bits = 8 * d.itemsize
        self.max, self.min, self.eps = float(info.max), float(info.min), float(info.eps)
        self.tiny = self.smallest_normal = float(info.smallest_normal)
        self.resolution = float(10.0 ** -_digits(d))

    @property
    def dtype(self) -> str:
        return self._dtype.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and other._dtype is self._dtype

    def __hash__(self) -> int:
        return hash(self._dtype)

    def __repr__(self) -> str:
        parts = ", ".join(
            f"{name}={getattr(self, name):g}" for name in ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        )
        return f"finfo({parts}, dtype={self.dtype})"


def _digits(d: dtype) -> int:
    """Decimal digits that survive a trip through the type."""
    fraction = int(ml_dtypes.finfo(d.numpy).nmant)
    return int(fraction * np.log10(2.0))


class iinfo:
    """The limits of an integer dtype.

    >>> import flambeau as torch
    >>> torch.iinfo(torch.int8).max
    127
    """

    __slots__ = ("_dtype", "bits", "max", "min")

    def __init__(self, type: dtype | builtins.type):
        type = PYTHON_TYPES.get(type, type)
        if not isinstance(type, dtype):
            raise TypeError(f"iinfo(): argument 'type' (position 1) must be torch.dtype, not {type.__class__.__name__}")
        if type.category == BOOL:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        if type.category >= FLOATING or type.numpy.names:
            raise TypeError(f"iinfo() requires an integer input type, got {type}; floating types have finfo")
        info: Any = np.iinfo(type.numpy)
        self._dtype, self.bits = type, 8 * type.itemsize
        self.max, self.min = int(info.max), int(info.min)

    @property
    def dtype(self) -> str:
        return self._dtype.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and other._dtype is self._dtype

    def __hash__(self) -> int:
        return hash(self._dtype)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
