"""Distributions that are functions of uniforms: normal, exponential and the like, multinomial, with
PyTorch's formulas and PyTorch's use of the stream. `random_draws` says how to fill strided tensors.

float32 and 16-bit results, and all normals, equal PyTorch's to the last bit. Other float64 results of more
than 64 elements may differ by one unit in the last place where NumPy's functions and the C library's round
differently.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from . import random
from .allocation import empty
from .random import (
    CHUNK,
    FEW,
    Array,
    MersenneState,
    Shape,
    check_floating,
    element_count,
    multiply_add,
    narrow,
    part_of,
)

_EXACT_UP_TO = 64  # elements for which a call of the C library per element is affordable
_NATIVE_UP_TO = 4096  # elements that native code takes to the C library; NumPy's vectors are faster for more


def _rows32(engine: MersenneState, out: Array, mean: float, std: float) -> None:
    """Fill with float32 normals, 16 at a time: of 16 uniforms, 8 give radii and 8 give angles."""
    words, kernels = empty(out.size, np.uint32), random.kernels
    engine.fill(words)
    kernels.normal(kernels.address(words), kernels.address(out), out.size // 16, mean, std)


def _rows64(engine: MersenneState, out: Array, mean: float, std: float) -> None:
    words = engine.words(2 * out.size)
    random.kernels.normal64(random.address(words), random.address(out), out.size // 2, mean, std)


def _normal_rows(engine: MersenneState, count: int, dtype: np.dtype[Any], mean: float, std: float) -> Array:
    """count >= 16: whole rows of 16, then the last 16 elements anew if the count is ragged."""
    out = empty(count, dtype)
    if dtype == np.float32 and write_normals(engine, out, mean, std):
        return out
    fill = _rows64 if dtype == np.float64 else _rows32
    whole = count // 16 * 16
    for start in range(0, whole, CHUNK // 2):
        _fill_piece(fill, engine, out[start : min(start + CHUNK // 2, whole)], mean, std)
    if count % 16:
        if dtype.itemsize > 2:  # PyTorch has drawn a uniform for each element by then
            engine.words((count % 16) * dtype.itemsize // 4)
        _fill_piece(fill, engine, out[-16:], mean, std)
    return out


def write_normals(engine: MersenneState, out: Array, mean: float = 0.0, std: float = 1.0) -> bool:
    """Fills dense float32 memory with what `normal` draws; False if that is not one step."""
    count, kernels = out.size, random.kernels
    if count < 16:
        kernels.singles(
            engine._address, engine._few_at, engine._spare_at, kernels.address(out), count, mean or -0.0, std
        )
        return True
    if count > CHUNK:
        return False
    ragged = count % 16 > 0  # PyTorch has drawn a uniform for each element by then
    if count <= FEW - 16:
        given = engine.few(count + 16 * ragged)
    else:
        words = empty(count + 16 * ragged, np.uint32)
        engine.fill(words)
        given = kernels.address(words)
    made = kernels.address(out)
    kernels.normal(given, made, count // 16, mean, std)
    if ragged:
        kernels.normal(given + 4 * count, made + 4 * (count - 16), 1, mean, std)
    return True


def _fill_piece(
    fill: Callable[[MersenneState, Array, float, float], None],
    engine: MersenneState,
    piece: Array,
    mean: float,
    std: float,
) -> None:
    if piece.dtype.itemsize > 2:
        fill(engine, piece, mean, std)
        return
    wide = np.empty(piece.size, np.float32)
    fill(engine, wide, mean, std)
    piece[...] = wide.astype(piece.dtype)


def standard_normals(engine: MersenneState, count: int) -> Array:
    """float64 normals one by one: a pair of uniforms gives two, the second kept for the next."""
    out = empty(count, np.float64)
    start = 0
    if count and engine.cached_normal is not None:
        out[0], engine.cached_normal, start = engine.cached_normal, None, 1
    pairs = (count - start + 1) // 2
    if not pairs:
        return out
    both = engine.normal_pairs(pairs)
    out[start:] = both[: count - start]
    if (count - start) % 2:
        engine.cached_normal = float(both[-1])
    return out


def _apply(exact: Callable[[float], float], vector: Any, values: Array) -> Array:
    """A function of the C library for few values, NumPy's for many."""
    if values.size > _EXACT_UP_TO:
        out: Array = vector(values)
        return out
    return np.array([exact(value) for value in values.tolist()], np.float64)


def normal(
    engine: MersenneState, shape: Shape, dtype: Any, mean: float = 0.0, std: float = 1.0, contiguous: bool = True
) -> Array:
    """`torch.randn` and `normal_(mean, std)`, for real and complex floating types.

    Pass contiguous=False when the tensor to fill is not contiguous: PyTorch then draws one element
    at a time, whatever the size.
    """
    dtype = np.dtype(dtype)
    if std < 0:
        raise RuntimeError(f"normal_: expected std >= 0, got {std}")
    count = element_count(shape)
    real = part_of(dtype)
    if real is not None:
        parts = normal(engine, 2 * count, real, mean, std / math.sqrt(2.0), contiguous)
        out: Array = parts.view(dtype)
        return out.reshape(shape)
    check_floating("normal_", dtype)
    if count < 16 or not contiguous:
        return _one_by_one(engine, count, dtype, float(mean), float(std)).reshape(shape)
    return _normal_rows(engine, count, dtype, mean, std).reshape(shape)


def _one_by_one(engine: MersenneState, count: int, dtype: np.dtype[Any], mean: float, std: float) -> Array:
    if count <= CHUNK:
        return narrow(multiply_add(standard_normals(engine, count), std, mean), dtype)
    out = empty(count, dtype)
    for start in range(0, count, CHUNK):
        piece = out[start : start + CHUNK]
        piece[...] = _one_by_one(engine, piece.size, dtype, mean, std)
    return out


def normal_tensor(engine: MersenneState, mean: Array | float, std: Array | float, dtype: Any) -> Array:
    """`torch.normal` where mean or std is a tensor; the two broadcast."""
    dtype = np.dtype(dtype)
    shape = np.broadcast_shapes(np.shape(mean), np.shape(std))
    if not isinstance(std, np.ndarray):
        return normal(engine, shape, dtype, 0.0, std) + mean
    if std.size and not (std >= 0).all():
        raise RuntimeError("normal: expected every std to be >= 0")
    out = normal(engine, shape, dtype)
    out *= std
    out += mean if isinstance(mean, np.ndarray) else dtype.type(mean)
    return out


def exponential(engine: MersenneState, shape: Shape, dtype: Any, rate: float = 1.0) -> Array:
    """`exponential_(lambd)`."""
    dtype = np.dtype(dtype)
    if rate <= 0.0:
        raise RuntimeError(f"exponential_: expected lambd > 0, got {rate}")
    kernels, count = random.kernels, element_count(shape)
    if count <= _NATIVE_UP_TO and dtype.char in "fd":
        out, words = np.empty(shape, dtype), engine.words(2 * count)
        draw = kernels.exponential32 if dtype.char == "f" else kernels.exponential64
        draw(kernels.address(words), kernels.address(out), count, -1.0 / rate)
        return out
    return _transformed(
        engine, shape, dtype, "exponential_",
        lambda u: (-1.0 / rate) * _apply(math.log1p, np.log1p, -u),
    )  # fmt: skip


def cauchy(engine: MersenneState, shape: Shape, dtype: Any, median: float = 0.0, sigma: float = 1.0) -> Array:
    """`cauchy_(median, sigma)`."""
    if sigma <= 0.0:
        raise RuntimeError(f"cauchy_: expected sigma > 0, got {sigma}")
    return _transformed(
        engine, shape, np.dtype(dtype), "cauchy_",
        lambda u: multiply_add(_apply(math.tan, np.tan, math.pi * (u - 0.5)), sigma, median),
    )  # fmt: skip


def geometric(engine: MersenneState, shape: Shape, dtype: Any, p: float) -> Array:
    """`geometric_(p)`, for integer and floating types."""
    if not 0.0 < p < 1.0:
        raise RuntimeError(f"geometric_: expected p in (0, 1), got {p}")
    scale = math.log1p(-p)

    def trials(u: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.ceil(np.log(u) / scale)

    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        return _transformed(engine, shape, dtype, None, trials)
    return _transformed(engine, shape, dtype, "geometric_", trials)


def log_normal(engine: MersenneState, shape: Shape, dtype: Any, mean: float = 1.0, std: float = 2.0) -> Array:
    """`log_normal_(mean, std)`."""
    dtype = np.dtype(dtype)
    check_floating("log_normal_", dtype)
    if std <= 0.0:
        raise RuntimeError(f"log_normal_: expected std > 0, got {std}")
    count = element_count(shape)
    out = empty(count, dtype)
    for start in range(0, count, CHUNK):
        piece = out[start : start + CHUNK]
        exponent = multiply_add(standard_normals(engine, piece.size), float(std), float(mean))
        piece[...] = narrow(_apply(_exp, np.exp, exponent), dtype)
    return out.reshape(shape)


def _exp(value: float) -> float:
    return math.exp(value) if value < 709.0 else float(np.exp(value))


def _transformed(
    engine: MersenneState,
    shape: Shape,
    dtype: np.dtype[Any],
    floating_only: str | None,
    transform: Callable[[Array], Array],
) -> Array:
    """A function of one 53-bit uniform per element."""
    if floating_only:
        check_floating(floating_only, dtype)
    count = element_count(shape)
    out = empty(count, dtype)
    for start in range(0, count, CHUNK):
        piece = out[start : start + CHUNK]
        piece[...] = narrow(transform(engine.doubles(piece.size)), dtype)
    return out.reshape(shape)


_FEW = 1 << 15


def multinomial(engine: MersenneState, weights: Array, samples: int, replacement: bool = False) -> Array:
    """Indices drawn by the rows of `weights` (one or two axes), as int64."""
    if not replacement or samples == 1:
        return _multinomial_race(engine, weights, samples)
    rows = weights.reshape(-1, weights.shape[-1])
    sums = np.cumsum(rows.astype(np.promote_types(np.float32, rows.dtype)), axis=1)
    bounds = (sums / sums[:, -1:]).astype(np.float64)
    drawn = engine.doubles(len(rows) * samples).reshape(len(rows), samples)
    return _search_rows(bounds, drawn).reshape(*weights.shape[:-1], samples)


def _search_rows(bounds: Array, drawn: Array) -> Array:
    """For each draw the first column of its row whose bound is not below it, by bisection; the last one if there is none."""
    if len(bounds) == 1:
        return np.minimum(np.searchsorted(bounds[0], drawn), bounds.shape[1] - 1)
    if drawn.size * bounds.shape[1] <= _FEW:  # to compare all takes less time than to begin so many steps
        return np.count_nonzero(bounds[:, None, :-1] < drawn[:, :, None], axis=2)
    first = np.zeros(drawn.shape, np.int64)
    last = np.full(drawn.shape, bounds.shape[1] - 1)
    for _ in range(bounds.shape[1].bit_length()):
        middle = (first + last) >> 1
        below = np.take_along_axis(bounds, middle, axis=1) < drawn
        first = np.where(below & (first < last), middle + 1, first)
        last = np.where(below, last, middle)
    return first


def _multinomial_race(engine: MersenneState, weights: Array, samples: int) -> Array:
    """Each category arrives after an exponential time over its weight; the earliest are taken."""
    times = exponential(engine, weights.shape, weights.dtype)
    with np.errstate(divide="ignore", invalid="ignore"):
        score = (weights / times).astype(weights.dtype, copy=False)
    if samples == 1:
        winner: Array = np.argmax(score, axis=-1, keepdims=True)
        return winner
    if samples < score.shape[-1]:
        best = np.argpartition(-score, samples - 1, axis=-1)[..., :samples]
        order = np.argsort(-np.take_along_axis(score, best, -1), axis=-1, kind="stable")
        return np.take_along_axis(best, order, -1)
    return np.argsort(-score, axis=-1, kind="stable")
