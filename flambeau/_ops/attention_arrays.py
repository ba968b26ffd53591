"""Attention of CPU arrays by the native kernels: how operands have to lie, what the results look like, threads."""

from __future__ import annotations

import struct
from array import array
from typing import Any

import numpy as np

from .._backend import threads
from .._backend.blas import _Scratch
from .._core.allocation import empty
from .._kernel import attention as kernels
from .._kernel import pool
from .._kernel.attention_tiles import layout

_CODES = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}
_PARALLEL = 1 << 20  # multiplications from which a second thread pays
_scratch = _Scratch()


def _four(a: Any) -> Any:
    """An array with two dimensions before its rows."""
    return a if a.ndim == 4 else a.reshape((1,) * (4 - a.ndim) + a.shape)


def _operand(a: Any, unit: int) -> Any:
    """An array as the kernels read it: neighbouring elements in a row, whose number is a multiple of `unit`."""
    a = _four(a)
    width = a.shape[3]
    if width % unit == 0 and a.strides[3] == a.itemsize and a.flags.aligned:
        return a
    made = np.zeros((*a.shape[:3], -(-width // unit) * unit), a.dtype)
    made[..., :width] = a
    return made


def _result(shape: tuple[int, ...], d: Any, unit: int, order: list[int]) -> Any:
    """An array for rows of whole units, with its first three dimensions in an order of memory."""
    width = -(-shape[3] // unit) * unit
    made = empty((*[shape[i] for i in order], width), d)
    return made.transpose(*[order.index(i) for i in range(3)], 3)


def _cut(a: Any, width: int, shape: tuple[int, ...]) -> Any:
    """A result without what it was filled up with."""
    if a.shape[3] != width:
        a = np.ascontiguousarray(a[..., :width])
    return a if len(shape) == 4 else a.reshape(shape)


def _place(a: Any) -> list[int]:
    return [a.__array_interface__["data"][0], *a.strides[:3]]


def _bits(x: float) -> int:
    return struct.unpack("<q", struct.pack("<d", x))[0]  # type: ignore[no-any-return]


def _numbers(
    q: Any, k: Any, v: Any, pieces: int, heads: int, group: int, scale: float, causal: bool, dropout: float
) -> list[int]:
    factor = _bits(1.0 / (1.0 - dropout))
    shape = q.shape[2], k.shape[2], q.shape[3], v.shape[3]
    return [0, pieces, heads, group, *shape, int(causal), _bits(scale), factor]


def _mask_places(mask: Any, keep: Any) -> list[int]:
    """Where a mask (B or 1, heads or 1, L or 1, S or 1) lies, and the bytes (B, heads, L, S) of what is kept."""
    places = [0] * 5
    if mask is not None:
        steps = [0 if n == 1 else s for n, s in zip(mask.shape, mask.strides)]
        places = [mask.__array_interface__["data"][0], *steps]
    return places + ([0] * 4 if keep is None else _place(_four(keep)))


def _run(address: int, words: list[int], size: int, pieces: int, work: int) -> None:
    count = 1 if work < _PARALLEL else min(threads.get_num_threads(), pieces)
    given = array("q", words)
    size = -(-size // 64) * 64
    start = _scratch.take(size * count).__array_interface__["data"][0]
    first = given.buffer_info()[0]
    pool.run_calls([(address, [first, start + i * size], [1], []) for i in range(count)], count)


def forward(
    q: Any, k: Any, v: Any, mask: Any, keep: Any, scale: float, causal: bool, group: int, dropout: float,
    short: str | None,
) -> Any:  # fmt: skip
    """softmax(q k' * scale + mask) v and, for each query, the logarithm of its sum of exponentials."""
    code = _CODES[q.dtype]
    lay = layout(code)
    shape, depth = (*q.shape[:-1], v.shape[-1]), v.shape[-1]
    q, k, v = (_operand(a, lay.unit) for a in (q, k, v))
    batch, heads, length, width = q.shape
    order = sorted(range(3), key=lambda i: -q.strides[i])  # as the queries lie, so that reshaping heads copies nothing
    out = _result((batch, heads, length, depth), q.dtype, lay.unit, order)
    total = np.empty((batch, heads, length), q.dtype)
    pieces = batch * heads * -(-length // (kernels.CHUNK * lay.columns))
    words = _numbers(q, k, v, pieces, heads, group, scale, causal, dropout)
    for a in (q, k, v, out):
        words += _place(a)
    words += [total.__array_interface__["data"][0], *total.strides, *_mask_places(mask, keep)]
    size = kernels.forward_scratch(code, width, v.shape[3], keep is not None)
    work = batch * heads * length * k.shape[2] * (width + depth)
    _run(kernels.attention(code, short, keep is not None), words, size, pieces, work)
    return _cut(out, depth, shape), total.reshape(shape[:-1])


def backward(
    g: Any, q: Any, k: Any, v: Any, mask: Any, keep: Any, out: Any, total: Any, scale: float, causal: bool,
    group: int, dropout: float, short: str | None,
) -> Any:  # fmt: skip
    """The gradients by q, k and v."""
    code = _CODES[q.dtype]
    unit = layout(code).unit
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
    words += [total.__array_interface__["data"][0], *total.strides]
    for a in (g, *made):
        words += _place(a)
    words += _mask_places(mask, keep)
    size = kernels.backward_scratch(code, width, v.shape[3], keep is not None)
    work = 3 * batch * heads * length * k.shape[2] * (width + v.shape[3])
    _run(kernels.attention_backward(code, short, keep is not None), words, size, pieces, work)
    if short:
        made[1] *= q.dtype.type(scale)
    return tuple(_cut(a, s[-1], s) for a, s in zip(made, shapes))
