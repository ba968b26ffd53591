"""Draws that need no transcendental function: uniform, integer, permutation, Bernoulli, dropout.

Every draw returns a new C-ordered array and consumes exactly as much of the stream as PyTorch does.
PyTorch fills a strided tensor in memory order, not in logical order: axes sorted by decreasing
stride. To fill such a tensor, draw as many elements and write them along that order.
"""

from __future__ import annotations

from math import ceil
from typing import Any

import ml_dtypes
import numpy as np

from . import random
from .allocation import empty
from .random import (
    CHUNK,
    SIGNIFICAND_BITS,
    Array,
    MersenneState,
    Shape,
    address,
    check_floating,
    element_count,
    part_of,
)

_WIDE_RANGE = 1 << 28  # from this range on PyTorch spends 64 bits on an integer
_LARGE_PERMUTATION = (2**32 - 1) // 20


def uniform(engine: MersenneState, shape: Shape, dtype: Any, low: float = 0.0, high: float = 1.0) -> Array:
    """Values in [low, high): `torch.rand` and `uniform_`, for real and complex floating types."""
    dtype = np.dtype(dtype)
    count = element_count(shape)
    real = part_of(dtype)
    if real is not None:
        parts: Array = uniform(engine, 2 * count, real, low, high).view(dtype)
        return parts.reshape(shape)
    if dtype == np.float32:
        out = engine.floats(count, low, high)
    elif dtype == np.float64:
        out = engine.doubles(count, low, high)
    else:
        check_floating("uniform_", dtype)
        out = _uniform_half(engine, count, dtype, low, high)
    return out.reshape(shape)


def _uniform_half(engine: MersenneState, count: int, dtype: np.dtype[Any], low: float, high: float) -> Array:
    out = empty(count, dtype)
    low_value, high_value = (np.float32(bound).astype(dtype) for bound in (low, high))
    for start in range(0, count, CHUNK):
        piece = out[start : start + CHUNK]
        piece[...] = engine.floats(piece.size, low, high).astype(dtype)
        piece[piece == high_value] = low_value
    return out


def _integers(engine: MersenneState, count: int, dtype: np.dtype[Any], low: int, span: int) -> Array:
    """low + word % span in 64-bit wrap-around arithmetic; span 0 means all 64 bits as they are."""
    wide = span == 0 or span >= _WIDE_RANGE
    out = empty(count, dtype)
    for start in range(0, count, CHUNK):
        piece = out[start : start + CHUNK]
        if wide:
            bits = engine.words64(piece.size)
            if span:
                np.remainder(bits, np.uint64(span), out=bits)
        else:
            narrow_bits = engine.words(piece.size)
            if span & (span - 1):
                np.remainder(narrow_bits, np.uint32(span), out=narrow_bits)
            else:
                np.bitwise_and(narrow_bits, np.uint32(span - 1), out=narrow_bits)
            if not low and dtype.kind in "iub":
                piece[...] = narrow_bits
                continue
            bits = narrow_bits.astype(np.uint64)
        if low and span:
            np.add(bits, np.uint64(low % (1 << 64)), out=bits)
        piece[...] = _from_int64(bits.view(np.int64), dtype)
    return out


def _from_int64(values: Array, dtype: np.dtype[Any]) -> Array:
    """Cast as PyTorch does: to the 16-bit float types by way of float32."""
    if dtype in SIGNIFICAND_BITS and dtype.itemsize == 2:
        values = values.astype(np.float32)
    return values.astype(dtype, copy=False)


def _representable_bounds(dtype: np.dtype[Any], low: int, high: int) -> tuple[int, int]:
    """Bounds moved inwards where rounding low + 1 or high - 1 to a float type leaves the range."""
    digits = SIGNIFICAND_BITS[dtype]

    def cast(value: int) -> int:
        with np.errstate(over="ignore"):
            rounded = float(_from_int64(np.int64(value).reshape(1), dtype)[0])
        return int(rounded) if abs(rounded) != np.inf else value  # the bounds check reports it

    above = cast(low + 1)
    if above < low:
        low = above + (1 << (abs(low + 1).bit_length() - digits))
    below = cast(high - 1)
    if below >= high:
        high = below - (1 << (abs(high - 1).bit_length() - digits))
    return low, high


def _check_bound(name: str, value: int, dtype: np.dtype[Any]) -> None:
    if dtype == np.bool_:
        smallest, largest = 0, 1
    elif dtype.kind in "iu":
        info = np.iinfo(dtype)
        smallest, largest = int(info.min), int(info.max)
    else:
        largest = int(float(ml_dtypes.finfo(dtype).max))
        smallest = -largest
    if not smallest <= value <= largest:
        raise RuntimeError(f"{name} is out of bounds for {dtype}: random_ got {value}")


def randint(engine: MersenneState, shape: Shape, dtype: Any, low: int, high: int) -> Array:
    """Integers in [low, high), of any real type: `torch.randint` and `random_(from, to)`."""
    dtype = np.dtype(dtype)
    if dtype.kind not in "iub" and dtype not in SIGNIFICAND_BITS:
        raise RuntimeError(f"random_: expected an integer, floating or bool dtype, got {dtype}")
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    if dtype in SIGNIFICAND_BITS:
        low, high = _representable_bounds(dtype, low, high)
        if low >= high:
            raise RuntimeError(f"random_: expected from < to when rounded to {dtype}, got from={low}, to={high}")
    _check_bound("from", low, dtype)
    _check_bound("to - 1", high - 1, dtype)
    return _integers(engine, element_count(shape), dtype, low, high - low).reshape(shape)


def random_full(engine: MersenneState, shape: Shape, dtype: Any) -> Array:
    """`random_()`: non-negative values over the whole range of an integer type, or every integer
    up to 2**digits for a float type."""
    dtype = np.dtype(dtype)
    if dtype in SIGNIFICAND_BITS:
        span = (1 << SIGNIFICAND_BITS[dtype]) + 1
        if dtype == np.float64:
            return _integers(engine, element_count(shape), dtype, 0, span).reshape(shape)
    elif dtype == np.bool_:
        span = 2
    elif dtype.kind == "i" or dtype == np.uint8:
        span = int(np.iinfo(dtype).max) + 1
    else:
        raise NotImplementedError(f"random_: not implemented for {dtype}")
    count = element_count(shape)
    if dtype == np.int32:  # 31 bits still cost one word here, unlike in `randint`
        return (engine.words(count) & np.uint32(0x7FFFFFFF)).astype(np.int32).reshape(shape)
    return _integers(engine, count, dtype, 0, span).reshape(shape)


def random_from(engine: MersenneState, shape: Shape, dtype: Any, low: int, to: None = None) -> Array:
    """`random_(from, None)`: values from `low` up to the largest of the type, included."""
    dtype = np.dtype(dtype)
    if dtype in SIGNIFICAND_BITS:
        high = (1 << SIGNIFICAND_BITS[dtype]) + 1
        low = _representable_bounds(dtype, low, high)[0]
    elif dtype == np.bool_:
        high = 2
    elif dtype.kind in "iu" and dtype not in (np.uint16, np.uint32, np.uint64):
        high = int(np.iinfo(dtype).max) + 1
    else:
        raise NotImplementedError(f"random_: not implemented for {dtype}")
    _check_bound("from", low, dtype)
    count = element_count(shape)
    return _integers(engine, count, dtype, low, (high - low) % (1 << 64)).reshape(shape)


def randperm(engine: MersenneState, n: int, dtype: Any = np.int64) -> Array:
    """A permutation of range(n), as `torch.randperm`."""
    dtype = np.dtype(dtype)
    if n < 0:
        raise RuntimeError(f"randperm: n must be non-negative, got {n}")
    if dtype == np.bool_ or (dtype.kind not in "iu" and dtype not in SIGNIFICAND_BITS):
        raise NotImplementedError(f"randperm: not implemented for {dtype}")
    if dtype.kind in "iu" and n > int(np.iinfo(dtype).max) + 1:
        raise RuntimeError(f"randperm: {n} does not fit in {dtype}")
    if dtype in (np.float16, np.float32, np.float64) and n > (1 << SIGNIFICAND_BITS[dtype]) + 1:
        raise RuntimeError(f"randperm: n = {n} is too large for {dtype}")
    if n >= _LARGE_PERMUTATION:
        raise RuntimeError(f"randperm: n = {n} exceeds the supported {_LARGE_PERMUTATION - 1}")
    if n < 2:
        return np.arange(n).astype(dtype)
    targets = engine.words(n - 1)
    values = np.empty(n, np.int64)
    random.kernels.swap(address(targets), address(values), n)
    return _from_int64(values, dtype)


def bernoulli(engine: MersenneState, shape: Shape, dtype: Any, p: float) -> Array:
    """0 and 1 with a scalar probability: `bernoulli_(p)`."""
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"bernoulli_: expected p in [0, 1], got {p}")
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        raise NotImplementedError(f"bernoulli_: not implemented for {dtype}")
    return keep_mask(engine, shape, p).astype(dtype, copy=False)


def keep_mask(engine: MersenneState, shape: Shape, keep: float) -> Array:
    """True with probability `keep`: what dropout with p = 1 - keep draws.

    `F.dropout`, `native_dropout` and the alpha and feature variants all draw this over their noise
    shape, with keep = 1 - p.
    """
    out, kernels = empty(shape, np.bool_), random.kernels
    threshold = ceil(keep * 2.0**53)  # of 53 bits: a draw is below `keep` if its bits are below this
    count, place = out.size, kernels.address(out)
    words = empty(2 * min(count, CHUNK // 2), np.uint32)
    for start in range(0, count, CHUNK // 2):
        pairs = min(count - start, CHUNK // 2)
        engine.fill(words[: 2 * pairs])
        kernels.keep(kernels.address(words), place + start, pairs, threshold)
    return out


def bernoulli_tensor(engine: MersenneState, p: Array, dtype: Any) -> Array:
    """0 and 1 with a probability per element: `torch.bernoulli(p)` and `bernoulli_(tensor)`.

    Broadcast `p` to the output's shape first; it is read in C order.
    """
    dtype = np.dtype(dtype)
    if p.dtype not in SIGNIFICAND_BITS:
        raise NotImplementedError(f"bernoulli: not implemented for probabilities of {p.dtype}")
    if p.size and not ((p >= 0) & (p <= 1)).all():
        raise RuntimeError("bernoulli: expected every probability in [0, 1]")
    if p.dtype == np.float64:
        drawn = engine.doubles(p.size)
    else:
        drawn = engine.floats(p.size)
        p = p.astype(np.float32, copy=False)
    return (drawn.reshape(p.shape) < p).astype(dtype)
