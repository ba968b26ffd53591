"""Resizing of signals, images and volumes: along one dimension at a time, by a few weighted neighbours each."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._backend.copies import row_major, rows_of
from ..._backend.cpu import cpu
from ..._core.allocation import empty
from ..._core.dtypes import BY_NUMPY, FLOATING, dtype, float32, uint8
from ..._core.state import GRAD
from ..._errors.frames import warn_user
from ..._kernel.images.resample import (
    resample_bytes_columns,
    resample_bytes_element,
    resample_bytes_rows,
    resample_columns,
    resample_columns_back,
    resample_element,
    resample_element_back,
    resample_rows,
    resample_rows_back,
)
from ..._tensor import Tensor
from ..places import planes
from ..places.picking import Places, makers, pick
from ..records.batching import along
from ..records.casting import cast_array
from ..records.primitive import primitive
from ..records.rules import not_implemented
from ..records.shape_rules import dtype_of
from ..records.tangents import linear
from ..registry import functions, ops, public, relabel
from .channels import channels_at_end, channels_second, is_channels_last, keeps_channels_last

_MANY_TAPS = 4
_MANY_BYTES = 12  # taps of bytes, whose sums are short enough to be added up at once
_WORTH_TURNING = 1 << 12  # elements
_LEAST_COLUMNS = 32  # of a turned group

# -- one dimension -------------------------------------------------------------------------------------------------


class Taps:
    """For each place of a resized dimension, the places (out, taps) it is made of and their weights; the derivative has
    `exact` ones."""

    def __init__(self, index: Any, weights: Any, exact: Any = None):
        self.index, self.weights, self.exact = index, weights, weights if exact is None else exact
        self.turned = tuple([np.ascontiguousarray(a.T) for a in (self.index, self.weights)])
        for constant in (self.index, self.weights, self.exact, *self.turned):
            if isinstance(constant, np.ndarray):
                constant.flags.writeable = False


@functools.lru_cache(1024)
def _along(taps: Taps, shape: tuple[int, ...], d: Any, dim: int, size: int, back: bool) -> tuple[Any, ...]:
    """How a dimension is resized: (kernel, places and weights, shapes of its operand, its result and ours); later dimensions are columns."""
    last, code = dim == len(shape) - 1, BY_NUMPY[d].code
    rows, columns = (resample_rows_back, resample_columns_back) if back else (resample_rows, resample_columns)
    weights = taps.exact if back else taps.weights
    types = (code, "i64", "f64" if weights.dtype == np.float64 else "f32", code)
    made, lead = (*shape[:dim], size, *shape[dim + 1 :]), math.prod(shape[:dim])
    after = () if last else (math.prod(shape[dim + 1 :]),)
    count = taps.index.shape[1]
    known = {} if back else {"taps": count if count <= _MANY_TAPS else None}
    call = cpu.sized(max(math.prod(shape), math.prod(made)) * count, rows if last else columns, types, **known)
    given = taps.turned if last and not back else (taps.index, weights)
    return call, given, (lead, shape[dim], *after), (lead, size, *after), made


def _turned_groups(x: Any, dim: int, taps: int) -> int:
    """Into how many groups rows are cut of which each is turned, because sums of many taps go faster down columns than
    along rows; 0 if they do not."""
    if dim != x.ndim - 1 or taps < _MANY_TAPS or x.itemsize not in (4, 8) or x.size < _WORTH_TURNING:
        return 0
    return _groups(x.size // x.shape[dim])


def _groups(rows: int) -> int:
    return next((g for g in (16, 8, 4, 2, 1) if rows % g == 0 and rows // g >= _LEAST_COLUMNS), 0)


def _turned(groups: int, x: Any, dim: int, taps: Taps, size: int, back: bool) -> Any:
    """The last dimension resized as the rows of turned groups."""
    n = x.shape[dim]
    columns = row_major(x.reshape(groups, -1, n).swapaxes(1, 2))
    call, places, given, made, shape = _along(taps, columns.shape, x.dtype, 1, size, back)
    out = (cpu.zeros if back else empty)(shape, x.dtype)
    call(columns.reshape(given), *places, out.reshape(made))
    return row_major(out.swapaxes(1, 2)).reshape(*x.shape[:dim], size)


def _resampled(x: Any, dim: int, taps: Taps, size: int, back: bool) -> Any:
    """A dimension resized, or its adjoint, in main memory; channels that lie side by side are the last columns."""
    if dim > 1 and is_channels_last(x):
        return channels_second(_resampled(channels_at_end(x), dim - 1, taps, size, back))
    groups = _turned_groups(x, dim, taps.index.shape[1])
    if groups:
        return _turned(groups, x, dim, taps, size, back)
    call, places, given, made, shape = _along(taps, x.shape, x.dtype, dim, size, back)
    out = (cpu.zeros if back else empty)(shape, x.dtype)
    if x.size and out.size:
        call(x.reshape(given), *places, out.reshape(made))
    return out


@primitive(
    meta=lambda x, dim, words: ((*x.shape[:dim], words[2], *x.shape[dim + 1 :]), dtype_of(x)),
    name="resample", backward_name="UpsampleBackward0",
    grad={"x": lambda g, dim, words: resample_back(g, dim, words)},
    batch=along,
    tangent=linear("x"),
)  # fmt: skip
@keeps_channels_last()
def resample(backend: Any, x: Any, dim: int, words: tuple[Any, ...]) -> Any:
    """Along `dim`, place i of the result is the sum over t of weights[i, t] * x[index[i, t]], for the taps of `words`."""
    taps = taps_of(words)
    index, weights = taps.index, taps.weights
    if backend is cpu:
        return _resampled(x, dim, taps, len(index), False)
    out = planes.room(backend, x, (*x.shape[:dim], len(index), *x.shape[dim + 1 :]), x.dtype, x.ndim > 3)
    if out.size:
        code, count = BY_NUMPY[x.dtype].code, index.shape[1]
        types = (code, "i64", BY_NUMPY[weights.dtype].code, code)
        call = backend.kernel(resample_element, types, taps=count if count <= _MANY_TAPS else None)
        call(_all_along(x, dim), *[_row_along(backend, a, x.ndim - dim) for a in (index, weights)], out)
    return out


def _all_along(x: Any, dim: int) -> Any:
    """All elements along a dimension for each place of the result there, on devices where every result has a thread."""
    others = [d for d in range(x.ndim) if d != dim]
    return x.transpose(*others, dim)[(*(slice(None),) * dim, None)]


def _row_along(backend: Any, table: Any, rest: int) -> Any:
    """A row of a table for each place along the first of the last `rest` dimensions."""
    return backend.constant(table.reshape(len(table), *[1] * (rest - 1), table.shape[1]))


@primitive(
    meta=lambda x, dim, words: ((*x.shape[:dim], words[1], *x.shape[dim + 1 :]), dtype_of(x)),
    name="resample_backward",
    grad={"x": lambda g, dim, words: resample(g, dim, (*words[:-1], True))},
    batch=along,
    tangent=linear("x"),
)  # fmt: skip
@keeps_channels_last(takes=lambda x, dim, words: x.ndim > 3 and words[0] != "bicubic")
def resample_back(backend: Any, x: Any, dim: int, words: tuple[Any, ...]) -> Any:
    taps, size = taps_of(words), words[1]
    shape = (*x.shape[:dim], size, *x.shape[dim + 1 :])
    if backend is cpu:
        return _resampled(rows_of(x) if words[0] == "bicubic" else x, dim, taps, size, True)  # as PyTorch's lie
    out = backend.empty(shape, x.dtype)
    if out.size:
        bounds, places, weights = _inverse(taps, size)
        code = BY_NUMPY[x.dtype].code
        call = backend.kernel(resample_element_back, (code, "i64", "i64", BY_NUMPY[weights.dtype].code, code))
        row = _row_along(backend, bounds, x.ndim - dim)
        call(_all_along(x, dim), row, backend.constant(places), backend.constant(weights), out)
    return out


@functools.lru_cache(1024)
def _inverse(taps: Taps, size: int) -> tuple[Any, Any, Any]:
    """For each of so many old places where its shares begin and end, and these: places of the result, and weights."""
    bounds, shares = planes.inverse(taps.index.reshape(-1), size)
    return bounds, shares // taps.index.shape[1], taps.exact.reshape(-1)[shares]


# -- places and weights --------------------------------------------------------------------------------------------


def _scale(size: int, out: int, align: bool, factor: float | None, real: Any) -> Any:
    """How far apart in the input neighbouring places of the result are."""
    if align:
        return real(size - 1) / real(out - 1) if out > 1 else real(0)
    return real(1.0 / factor) if factor is not None and factor > 0 else real(size) / real(out)


def _nearest(size: int, out: int, factor: float | None, exact: bool, real: Any) -> Any:
    place = np.arange(out).astype(real)
    scale = _scale(size, out, False, factor, real)
    found = np.floor((place + real(0.5)) * scale if exact else place * scale)
    return np.minimum(found.astype(np.int64), size - 1)


def _places(size: int, out: int, align: bool, factor: float | None, real: Any) -> Any:
    scale = _scale(size, out, align, factor, real)
    place = np.arange(out).astype(real)
    return place * scale if align else scale * (place + real(0.5)) - real(0.5)


def _linear(size: int, out: int, align: bool, factor: float | None, real: Any) -> tuple[Any, Any]:
    place = np.maximum(_places(size, out, align, factor, real), real(0))
    low = np.minimum(place.astype(np.int64), size - 1)
    part = np.minimum(np.maximum(place - low.astype(real), real(0)), real(1))
    return np.stack([low, np.minimum(low + 1, size - 1)], 1), np.stack([real(1) - part, part], 1)


def cubic(distance: Any, a: float) -> Any:
    """The kernel of cubic convolution."""
    x = np.abs(distance)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def _bicubic(size: int, out: int, align: bool, factor: float | None, real: Any) -> tuple[Any, Any]:
    place = _places(size, out, align, factor, real)
    base = np.floor(place)
    part = (place - base)[:, None]
    steps = np.arange(-1, 3)
    index = np.clip(base.astype(np.int64)[:, None] + steps, 0, size - 1)
    return index, cubic(part - steps, -0.75).astype(real)


def lanczos(distance: Any) -> Any:
    """A sinc in the window of a sinc that is three times as wide."""
    return np.where(np.abs(distance) < 3, np.sinc(distance) * np.sinc(distance / 3), 0.0)


# How far the antialiased kernel of a mode reaches, and its values.
_SMOOTH: dict[str, tuple[float, Any]] = {
    "bilinear": (1.0, lambda distance: np.maximum(1.0 - np.abs(distance), 0.0)),
    "bicubic": (2.0, lambda distance: cubic(distance, -0.5)),
    "lanczos": (3.0, lanczos),
}


def _smooth(size: int, out: int, align: bool, factor: float | None, mode: str, real: Any) -> tuple[Any, Any]:
    """Antialiased: the kernel is stretched over all places that a place of the result covers."""
    scale = _scale(size, out, align, factor, real)
    width, kernel = _SMOOTH[mode]
    reach = width * max(float(scale), 1.0)
    stretch = 1.0 / max(float(scale), 1.0)
    center = float(scale) * (np.arange(out) + 0.5)
    low = np.maximum((center - reach + 0.5).astype(np.int64), 0)
    high = np.minimum((center + reach + 0.5).astype(np.int64), size)
    index = low[:, None] + np.arange(max(1, int((high - low).max())))
    distance = (index - center[:, None] + 0.5) * stretch
    weights = kernel(distance)
    weights = np.where(index < high[:, None], weights, 0.0)
    weights = weights / weights.sum(1, keepdims=True)
    return np.minimum(index, size - 1), weights.astype(real)


@functools.lru_cache(256)
def _plan(
    mode: str, size: int, out: int, align: bool, factor: float | None, antialias: bool, real: Any,
    short: dtype | None = None,
) -> Taps:  # fmt: skip
    """The taps of resizing one dimension, with weights as a `short` dtype has them."""
    if antialias:
        index, exact = _smooth(size, out, align, factor, mode, real)
    elif mode == "bicubic":
        index, exact = _bicubic(size, out, align, factor, real)
    else:
        index, exact = _linear(size, out, align, factor, real)
    return Taps(index, exact if short is None else _rounded(exact, short, mode), exact)


@functools.lru_cache(256)
def taps_of(words: tuple[Any, ...]) -> Taps:
    """Taps that are told in words: the arguments of `_plan`, whether in double precision, and whether with exact weights."""
    *numbers, double, short, exact = words
    taps = _plan(*numbers, np.float64 if double else np.float32, short)
    return Taps(taps.index, taps.exact) if exact else taps


def _nearest_places(exact: bool, double: bool, *numbers: Any) -> Places:
    """For (size, size of the result, factor) of each dimension."""
    rows, real = [numbers[i : i + 3] for i in range(0, len(numbers), 3)], np.float64 if double else np.float32
    return Places([_nearest(n, out, f, exact, real) for n, out, f in rows], tuple([row[0] for row in rows]))


makers["nearest"] = _nearest_places


def _rounded(weights: Any, d: dtype, mode: str) -> Any:
    """Weights in the precision of 16-bit inputs, as PyTorch has them; linear ones still add up to one."""
    short = cast_array(weights, d).astype(np.float32)
    if mode != "bicubic":
        short[:, 0] = cast_array(1 - short[:, 1], d).astype(np.float32)
    return short


@functools.lru_cache(256)
def _byte_taps(mode: str, size: int, out: int, align: bool, factor: float | None, antialias: bool) -> tuple[Any, ...]:
    """Places, whole weights and of how many bits one is, of resizing a dimension of bytes."""
    taps = _plan(mode, size, out, align, factor, antialias, np.float64)
    weights, bits = _fractions(taps.index, taps.exact)
    return taps.index, weights, np.asarray(bits, np.int64)


@primitive(
    name="resample_bytes",
    meta=lambda x, dim, taps: ((*x.shape[:dim], len(taps[0]), *x.shape[dim + 1 :]), uint8),
    batch=along,
)
@keeps_channels_last()
def resample_bytes(backend: Any, x: Any, dim: int, taps: tuple[Any, ...]) -> Any:
    """`resample` of bytes by whole weights, rounded and held to the range of bytes."""
    index, weights, bits = taps
    if backend is not cpu:
        shape = (*x.shape[:dim], len(index), *x.shape[dim + 1 :])
        out = planes.room(backend, x, shape, x.dtype, x.ndim > 3)
        if out.size:
            tables = [*[_row_along(backend, a, x.ndim - dim) for a in (index, weights)], backend.constant(bits)]
            backend.kernel(resample_bytes_element, ("u8", "i64", "i16", "i64", "u8"))(_all_along(x, dim), *tables, out)
        return out
    if dim > 1 and is_channels_last(x):
        return channels_second(_resampled_bytes(channels_at_end(x), dim - 1, taps))
    return _resampled_bytes(x, dim, taps)


def _resampled_bytes(x: Any, dim: int, taps: tuple[Any, ...]) -> Any:
    """The same in main memory. Where few elements are neighbours that go the same way, rows are turned first, some groups of them."""
    index, n, after = taps[0], x.shape[dim], math.prod(x.shape[dim + 1 :])
    shape = (*x.shape[:dim], len(index), *x.shape[dim + 1 :])
    groups = _groups(x.size // (n * after)) if after < _LEAST_COLUMNS and x.size >= _WORTH_TURNING else 0
    if not groups:
        out = empty(shape, x.dtype)
        if out.size:
            _bytes_along(x.reshape(-1, n, after), taps, out.reshape(-1, len(index), after))
        return out
    columns = row_major(x.reshape(groups, -1, n * after).swapaxes(1, 2))
    out = empty((groups, len(index) * after, columns.shape[2]), x.dtype)
    _bytes_along(columns.reshape(groups, n, -1), taps, out.reshape(groups, len(index), -1))
    return row_major(out.swapaxes(1, 2)).reshape(shape)


def _bytes_along(x: Any, taps: tuple[Any, ...], out: Any) -> None:
    """The middle one of three dimensions."""
    index, weights, bits = taps
    types, work = ("u8", "i64", "i16", "i64", "u8"), max(x.size, out.size) * index.shape[1]
    if x.shape[2] == 1:
        call = cpu.sized(work, resample_bytes_rows, types)
        call(x[..., 0], index, weights, bits, out[..., 0])
        return
    count = index.shape[1]
    call = cpu.sized(work, resample_bytes_columns, types, taps=count if count <= _MANY_BYTES else None)
    call(x, index, weights, bits, out)


def _resized_bytes(
    input: Tensor, sizes: Sequence[int], mode: str, align: bool, factors: Sequence[float | None], antialias: bool
) -> Tensor:
    """Images of bytes: weights are 16-bit fractions and each dimension is rounded to bytes, as PyTorch has it."""
    for i in (1, 0):
        size, out = input._array.shape[i + 2], sizes[i]
        if size != out:
            taps = _byte_taps(mode, size, out, align, factors[i], antialias)
            input = resample_bytes(input, i + 2, taps)
    return input


def _fractions(index: Any, weights: Any) -> tuple[Any, int]:
    """Weights as whole numbers of at most 15 bits, and of how many bits the number is that stands for one."""
    weights = weights.copy()
    for tap in range(weights.shape[1] - 1):  # taps beyond the border all read the last pixel: they are one
        same = index[:, tap] == index[:, tap + 1]
        weights[same, tap + 1] += weights[same, tap]
        weights[same, tap] = 0
    largest, bits = float(weights.max()), 0
    while bits < 22 and int(0.5 + largest * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    return np.trunc(weights * (1 << bits) + np.copysign(0.5, weights)).astype(np.int16), bits


def _copies_equal_sizes(mode: str, rank: int, exact: bool) -> bool:
    """Whether a dimension whose size stays is copied, though a factor such as 1.04 would move its places a little."""
    if mode.startswith("nearest"):
        return mode == "nearest" and rank == 2
    return exact or mode in ("linear", "bilinear", "trilinear")


def _resized(
    input: Tensor, sizes: tuple[int, ...], mode: str, align: bool, factors: tuple[float | None, ...], antialias: bool
) -> Tensor:
    """All dimensions after the first two resized, those in memory first that shrink the work."""
    d, before = input.dtype, input._array.shape[2:]
    if factors[0] is not None and _copies_equal_sizes(mode, len(sizes), antialias or d is uint8):
        factors = tuple([None if n == m else f for n, m, f in zip(before, sizes, factors)])
    real = np.float64 if d.itemsize == 8 else np.float32
    if mode.startswith("nearest"):
        if d.itemsize == 2 and d.category == FLOATING and input._k & GRAD:  # gradients are added in single precision
            wide = ops.to_dtype(input, float32)
            return ops.to_dtype(_resized(wide, sizes, mode, align, factors, antialias), d)
        numbers = [number for row in zip(before, sizes, factors) for number in row]
        return pick(input, ("nearest", mode == "nearest-exact", real is np.float64, *numbers))
    if d is uint8 and len(sizes) == 2:
        return _resized_bytes(input, sizes, mode, align, factors, antialias)
    narrow = d is not BY_NUMPY[np.dtype(real)]
    if narrow:
        input = ops.to_dtype(input, float32)
    for i in reversed(range(len(sizes))):
        size, out = input._array.shape[i + 2], sizes[i]
        if size == out and factors[i] in (None, 1.0):
            continue
        short = narrow and d is not uint8 and not antialias and mode != "bilinear"
        words = mode, size, out, align, factors[i], antialias, real is np.float64, d if short else None, False
        input = resample(input, i + 2, words)
    if not narrow:
        return input
    if d is uint8:
        input = ops.clamp(ops.round(input), 0, 255)
    return ops.to_dtype(input, d)


# -- public functions ----------------------------------------------------------------------------------------------

_RANKS = {"linear": 3, "bilinear": 4, "bicubic": 4, "lanczos": 4, "trilinear": 5}


def _numbers(value: Any, kinds: tuple[type, ...]) -> bool:
    """Whether an argument is missing, a plain number or some of those."""
    if value is None or value.__class__ in kinds:
        return True
    return isinstance(value, tuple) and not [v for v in value if v.__class__ not in kinds]


def _output_sizes(
    spatial: tuple[int, ...], size: Any, scale_factor: Any, recompute: bool | None
) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    """The sizes of the result, and the factors that its places are computed with."""
    count = len(spatial)
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        sizes = list(size) if isinstance(size, (list, tuple)) else [size] * count
        if len(sizes) != count:
            raise ValueError(
                f"Input and output must have the same number of spatial dimensions, but got input with spatial "
                f"dimensions of {list(spatial)} and output size of {size}."
            )
        for s in sizes:
            whole = s.dtype.category < FLOATING if isinstance(s, Tensor) else hasattr(s, "__index__")
            if not whole:
                raise TypeError(f"expected size to be one of int or Tuple[int], but got element of type {type(s)}")
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        return tuple([int(s) for s in sizes]), (None,) * count
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    factors = list(scale_factor) if isinstance(scale_factor, (list, tuple)) else [scale_factor] * count
    if len(factors) != count:
        raise ValueError(
            f"Input and scale_factor must have the same number of spatial dimensions, but got input with spatial "
            f"dimensions of {list(spatial)} and scale_factor of shape {scale_factor}."
        )
    factors = [float(f) for f in factors]
    made = tuple([math.floor(float(n) * f) for n, f in zip(spatial, factors)])
    return made, (None,) * count if recompute else tuple(factors)


_kept_sizes = functools.lru_cache(1024)(_output_sizes)


@functools.cache
def _label(mode: str, rank: int, antialias: bool) -> str:
    """PyTorch has one operation for each method and number of dimensions."""
    name = "".join(part.title() for part in mode.split("-"))
    return f"Upsample{name}{rank}D{'Aa' if antialias else ''}Backward0"


@public("nn.functional.interpolate", method=False, planned=True)
def interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> Tensor:  # fmt: skip
    """Resizes the dimensions after the first two to `size`, or by `scale_factor`.

    `mode` is nearest, nearest-exact, linear, bilinear, bicubic, trilinear, area, or (with antialias) lanczos.

    >>> import flambeau as torch
    >>> torch.nn.functional.interpolate(torch.tensor([[[1.0, 3.0]]]), scale_factor=2)
    tensor([[[1., 1., 3., 3.]]])
    """
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "interpolate: align_corners has a meaning only in the modes linear, bilinear, bicubic and trilinear"
            )
    shape = input._array.shape
    ndim = len(shape)
    known = _numbers(size, (int,)) and _numbers(scale_factor, (int, float))
    sizes, factors = (_kept_sizes if known else _output_sizes)(shape[2:], size, scale_factor, recompute_scale_factor)
    if antialias and not (mode in _SMOOTH and ndim == 4):
        raise ValueError(
            "interpolate: Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor "
            "as input"
        )
    if mode == "lanczos" and (not antialias or align_corners):
        raise ValueError(
            "Lanczos mode does not support align_corners=True" if antialias else "Lanczos mode requires antialias=True"
        )
    if ndim not in (3, 4, 5):
        raise NotImplementedError(f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {ndim}D)")
    if mode not in _RANKS and mode not in ("nearest", "area", "nearest-exact"):
        raise NotImplementedError(
            "Input Error: Only 3D, 4D and 5D input Tensors supported for the modes: nearest | linear | bilinear | "
            f"bicubic | trilinear | area | nearest-exact (got {mode})"
        )
    if _RANKS.get(mode, ndim) != ndim:
        raise NotImplementedError(f"Got {ndim}D input, but {mode} mode needs {_RANKS[mode]}D input")
    if mode == "area":
        _check_resize(input, sizes, mode)
        return functions[f"nn.functional.adaptive_avg_pool{len(sizes)}d"](input, sizes)
    return upsampled(input, sizes, factors, mode, bool(align_corners), bool(antialias))


def upsampled(
    input: Tensor, sizes: tuple[int, ...], factors: tuple[float | None, ...], mode: str, align: bool, antialias: bool
) -> Tensor:
    """The dimensions after the first two in other sizes; places are computed with the factors where they are given."""
    _check_resize(input, sizes, mode)
    out = _resized(input, sizes, mode, align, factors, antialias)
    if out is input:
        out = ops.clone(input)
    return relabel(out, _label(mode, len(sizes), antialias))


def _check_resize(input: Tensor, sizes: Sequence[int], mode: str) -> None:
    shape = input._array.shape
    if min(sizes) <= 0 or 0 in shape[2:]:
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input {list(shape[2:])} and output {list(sizes)}"
        )
    if shape[1] == 0:
        raise RuntimeError(f"Non-empty {len(shape)}D data tensor expected but got a tensor with sizes {list(shape)}")
    if input.dtype.category != FLOATING and not (input.dtype is uint8 and mode != "area"):
        raise not_implemented(f"upsample_{mode}", input.dtype)


@public("nn.functional.upsample", method=False)
def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Tensor:
    """The older name of `interpolate`."""
    warn_user("`nn.functional.upsample` is deprecated; use nn.functional.interpolate")
    return interpolate(input, size, scale_factor, mode, align_corners)


@public("nn.functional.upsample_nearest", method=False)
def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode="nearest"."""
    warn_user("`nn.functional.upsample_nearest` is deprecated; use nn.functional.interpolate")
    return interpolate(input, size, scale_factor, mode="nearest")


@public("nn.functional.upsample_bilinear", method=False)
def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode="bilinear" and align_corners=True."""
    warn_user("`nn.functional.upsample_bilinear` is deprecated; use nn.functional.interpolate")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


SCHEMAS = """
interpolate  # autocast=whole
"""
