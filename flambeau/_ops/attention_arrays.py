"""Attention of CPU arrays by the native kernels: how operands have to lie, what the results look like, threads."""

from __future__ import annotations

import ctypes
import functools
import struct
from array import array
from typing import Any

import numpy as np

from .._backend import copies, threads
from .._backend.blas import Scratch
from .._core.allocation import empty
from .._kernel import attention as kernels
from .._kernel import attention_few as few
from .._kernel import pool
from .._kernel.attention_tiles import Layout, layout
from .._kernel.direct import address_function

_CODES = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}
_SHARE = 1 << 20  # multiplications that are worth a thread
_MANY, _FAR = 128, 2048  # rows and bytes between them, from which it pays to bring them together first
_LARGE = 1 << 20  # elements from which copies are shared among threads
_NOWHERE, _PLAIN = [0] * 9, [0, 1, 2]
_WORD, _DOUBLE = struct.Struct("<q"), struct.Struct("<d")
_scratch = Scratch()


def _four(a: Any) -> Any:
    """An array with two dimensions before its rows."""
    return a if a.ndim == 4 else a.reshape((1,) * (4 - a.ndim) + a.shape)


def _operand(a: Any, unit: int) -> Any:
    """An array as the kernels read it: neighbouring elements in a row, whose number is a multiple of `unit`."""
    a = _four(a)
    _, _, length, width = a.shape
    if width % unit:
        made = np.zeros((*a.shape[:3], -(-width // unit) * unit), a.dtype)
        made[..., :width] = a
        return made
    if a.strides[3] != a.itemsize or (length >= _MANY and a.strides[2] >= _FAR) or not a.flags.aligned:
        return a.copy() if a.size < _LARGE else copies.row_major(a)
    return a


def _result(shape: tuple[int, ...], d: Any, unit: int, order: list[int]) -> Any:
    """An array for rows of whole units, with its first three dimensions in an order of memory."""
    width = -(-shape[3] // unit) * unit
    if order == _PLAIN:
        return empty((*shape[:3], width), d)
    made = empty((*[shape[i] for i in order], width), d)
    return made.transpose(*[order.index(i) for i in range(3)], 3)


def _order(a: Any) -> list[int]:
    """The order in memory of an array's first three dimensions: results lie alike, so that joining heads copies
    nothing."""
    x, y, z, _ = a.strides
    if x >= y >= z:
        return _PLAIN
    return sorted(_PLAIN, key=lambda i: -a.strides[i])


def _cut(a: Any, width: int, shape: tuple[int, ...]) -> Any:
    """A result without what it was filled up with."""
    if a.shape[3] != width:
        a = np.ascontiguousarray(a[..., :width])
    return a if len(shape) == 4 else a.reshape(shape)


def _address(a: Any) -> int:
    return address_function()(a)  # type: ignore[no-any-return]


def _place(a: Any) -> tuple[int, ...]:
    return (address_function()(a), *a.strides[:3])


def _bits(x: float) -> int:
    return _WORD.unpack(_DOUBLE.pack(x))[0]  # type: ignore[no-any-return]


def _numbers(
    q: Any, k: Any, v: Any, pieces: int, heads: int, group: int, scale: float, causal: bool, dropout: float
) -> list[int]:
    factor = _bits(1.0 / (1.0 - dropout))
    shape = q.shape[2], k.shape[2], q.shape[3], v.shape[3]
    return [pieces, heads, group, *shape, int(causal), _bits(scale), factor]


def _mask_places(mask: Any, keep: Any) -> list[int]:
    """Where a mask (B or 1, heads or 1, L or 1, S or 1) lies, and the bytes (B, heads, L, S) of what is kept."""
    if mask is None and keep is None:
        return _NOWHERE
    places = [0] * 5
    if mask is not None:
        places = [_address(mask), *[0 if n == 1 else s for n, s in zip(mask.shape, mask.strides)]]
    return [*places, *((0,) * 4 if keep is None else _place(_four(keep)))]


_ZEROS = [0] * 8


def _layout(code: str, length: int) -> Layout:
    lay = layout(code)
    return lay if length > lay.columns // 2 else layout(code, True)


@functools.cache
def _callable(address: int) -> Any:
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(address)


def _run(address: int, words: list[int], size: int, pieces: int, work: int) -> None:
    """Calls a kernel with its numbers and memory to work in, on one thread or on as many as there may be."""
    count = max(1, min(threads.get_num_threads(), pieces, work // _SHARE))
    size = -(-size // 64) * 64
    scratch = _address(_scratch.take(size * count))
    shares = array("q", _ZEROS * count)  # the first piece of each thread's share, a cache line for each
    for i in range(1, count):
        shares[8 * i] = pieces * i // count
    given = array("q", [0, scratch, 0, shares.buffer_info()[0], count, *words])
    start = given.buffer_info()[0]
    if count == 1:
        given[0] = start + 24
        _callable(address)(start, None, None, None)
        return
    pool.run_calls([(address, [start + 24, scratch + i * size, i], [1], []) for i in range(count)], count)


def forward(
    q: Any, k: Any, v: Any, mask: Any, keep: Any, scale: float, causal: bool, group: int, dropout: float,
    short: str | None,
) -> Any:  # fmt: skip
    """softmax(q k' * scale + mask) v and, for each query, the logarithm of its sum of exponentials."""
    code, length = _CODES[q.dtype], q.shape[-2]
    lay = _layout(code, length)
    shape, depth = (*q.shape[:-1], v.shape[-1]), v.shape[-1]
    order = _order(_four(q))
    q, k, v = (_operand(a, lay.unit) for a in (q, k, v))
    batch, heads, _, width = q.shape
    out = _result((batch, heads, length, depth), q.dtype, lay.unit, order)
    total = np.empty((batch, heads, length), q.dtype)
    dropped = keep is not None
    if length <= few.MOST and not dropped:
        address, pieces = few.attention(code, short), batch * heads * length
        size = few.scratch(code, k.shape[2])
    else:
        address = kernels.attention(lay, short, dropped)
        pieces = batch * heads * -(-length // (kernels.CHUNK * lay.columns))
        size = kernels.forward_scratch(lay, width, v.shape[3], dropped)
    words = _numbers(q, k, v, pieces, heads, group, scale, causal, dropout)
    for a in (q, k, v, out):
        words += _place(a)
    words += [_address(total), *total.strides, *_mask_places(mask, keep)]
    _run(address, words, size, pieces, batch * heads * length * k.shape[2] * (width + depth))
    return _cut(out, depth, shape), total.reshape(shape[:-1])


def backward(
    g: Any, q: Any, k: Any, v: Any, mask: Any, keep: Any, out: Any, total: Any, scale: float, causal: bool,
    group: int, dropout: float, short: str | None,
) -> Any:  # fmt: skip
    """The gradients by q, k and v."""
    lay = _layout(_CODES[q.dtype], q.shape[-2])
    unit = lay.unit
    shapes = q.shape, k.shape, v.shape
    g, q, k, v, out = (_operand(a, unit) for a in (g, q, k, v, out))
    batch, heads, length, width = q.shape
    order = [0, 2, 1]  # heads of a row are neighbours
    made = [_result((*a.shape[:3], s[-1]), q.dtype, unit, order) for a, s in zip((q, k, v), shapes)]
    total = total.reshape(batch, heads, length)
    pieces = batch * heads // group
    words = _numbers(q, k, v, pieces, heads // group, group, scale, causal, dropout)
    for a in (q, k, v, out):
        words += _place(a)
    words += [_address(total), *total.strides]
    for a in (g, *made):
        words += _place(a)
    words += _mask_places(mask, keep)
    size = kernels.backward_scratch(lay, width, v.shape[3], keep is not None)
    work = 3 * batch * heads * length * k.shape[2] * (width + v.shape[3])
    _run(kernels.attention_backward(lay, short, keep is not None), words, size, pieces, work)
    if short:
        made[1] *= q.dtype.type(scale)
    return tuple(_cut(a, s[-1], s) for a, s in zip(made, shapes))
