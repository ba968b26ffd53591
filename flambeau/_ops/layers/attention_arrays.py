"""Attention of CPU arrays by the native kernels: how operands have to lie, what the results look like, threads."""

from __future__ import annotations

import ctypes
import functools
import struct
from array import array
from typing import Any

import numpy as np

from ..._backend import copies, threads
from ..._backend.blas import Scratch
from ..._core import allocation
from ..._core.allocation import empty
from ..._core.layouts import strides_in_order
from ..._kernel.native.direct import address_function
from ..._kernel.render.value import SIZE
from ..._kernel.sequences import attention as kernels
from ..._kernel.sequences import attention_few as few
from ..._kernel.sequences.attention_tiles import Layout, layout
from ..._kernel.threads import pool

_CODES = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}
_MANY, _FAR = 128, 2048  # rows and bytes between them, from which it pays to bring them together first
_PLAIN, _ZEROS = (0, 1, 2), (0,) * 7
_WORD, _DOUBLE = struct.Struct("<q"), struct.Struct("<d")
_scratch = Scratch()


_BESIDE = (0, 2, 1)  # heads of a row are neighbours


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
        return copies.row_major(a)
    return a


def _order(a: Any) -> tuple[int, ...]:
    """The order in memory of an array's first three dimensions: results lie alike, so that joining heads copies
    nothing."""
    x, y, z, _ = a.strides
    if x >= y >= z:
        return _PLAIN
    return tuple(sorted(_PLAIN, key=lambda i: -a.strides[i]))


def _cut(a: Any, width: int, shape: tuple[int, ...]) -> Any:
    """A result without what it was filled up with."""
    if a.shape[3] != width:
        a = a[..., :width].copy(order="K")
    return a if len(shape) == 4 else a.reshape(shape)


def result_strides(q: Any, shape: tuple[int, ...], gradient: bool = False) -> tuple[int, ...]:
    """Strides in elements of the result for the queries `q`, or of a gradient."""
    order = _BESIDE if gradient else _order(_four(q))
    four = (1,) * (4 - len(shape)) + tuple(shape)
    return strides_in_order(four, (*order, 3))[4 - len(shape) :]


def _bits(x: float) -> int:
    return _WORD.unpack(_DOUBLE.pack(x))[0]


def _layout(code: str, length: int) -> Layout:
    lay = layout(code)
    return lay if length > lay.columns // 2 else layout(code, True)


class _Room:
    """A result that is still to be made: rows of whole units, its first three dimensions in an order of memory."""

    __slots__ = ("axes", "shape", "strides")

    def __init__(self, shape: tuple[int, ...], size: int, unit: int, order: tuple[int, ...]):
        width = -(-shape[3] // unit) * unit
        self.shape = (*[shape[i] for i in order], width)
        self.axes = None if order == _PLAIN else (*[order.index(i) for i in range(3)], 3)
        steps = (size * width * self.shape[1] * self.shape[2], size * width * self.shape[2], size * width)
        self.strides = tuple([steps[order.index(i)] for i in range(3)])

    def make(self, d: Any) -> Any:
        made = empty(self.shape, d)
        return made if self.axes is None else made.transpose(self.axes)


class _Call:
    """A kernel with its numbers, ready for operands that lie alike: only their addresses are missing.

    Its words are the threads' calls as the pool reads them, the state that all of them see (where their shares are,
    their number, `words`), and the shares: the first piece of each, which have cache lines of their own.
    """

    __slots__ = ("_alone", "_head", "_places", "_size", "_words", "count", "rooms")

    def __init__(
        self, address: int, words: list[int], places: list[int], size: int, pieces: int, work: int, rooms: list[_Room]
    ):
        self.rooms = rooms
        self.count = count = max(
            1, min(threads.get_num_threads(), pieces, threads.worth(work // (2 * threads.PRODUCTS)))
        )
        self._size = -(-size // 64) * 64 + pool.APART
        calls = [word for i in range(count) for word in (address, 0, 0, i, 1)]
        head = [count, 1, 5, 4, 5]  # what `pool.sequences` puts before calls with three operands and one extent
        self._head = len(head) + len(calls)
        self._places = [self._head + 2 + place for place in places]
        shares = [word for i in range(count) for word in (pieces * i // count, *_ZEROS)]
        self._words = array("q", [*head, *calls, 0, count, *words, *_ZEROS, *shares])
        self._alone = _callable(address) if count == 1 else None

    def __call__(self, *operands: Any) -> None:
        """Runs it on one thread, or on as many as pay."""
        given, count, address = self._words[:], self.count, address_function()
        start = given.buffer_info()[0]
        scratch, state = address(_scratch.take(self._size * count)), start + 8 * self._head
        given[self._head] = start + 8 * (len(given) - 8 * count)
        for place, a in zip(self._places, operands):
            if a is not None:
                given[place] = address(a)
        for i in range(count):
            at = 6 + 5 * i
            given[at], given[at + 1] = state, scratch + i * self._size
        if self._alone is not None and allocation.watcher is None:
            self._alone(start + 48, None, None, None)
        else:
            places = [place for place, a in zip(self._places, operands) if a is not None]
            states = range(6, 6 + 5 * count, 5)
            pool.run_shares(given, count, [*places, *[at + 1 for at in states]], [self._head, *states])


@functools.cache
def _callable(address: int) -> Any:
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(address)


def _numbers(
    q: Any, k: Any, v: Any, pieces: int, heads: int, group: int, scale: float, causal: bool, dropout: float
) -> list[int]:
    """Of arrays as `_lies` describes them."""
    factor = _bits(1.0 / (1.0 - dropout))
    shape = q[0][2], k[0][2], q[0][3], v[0][3]
    return [pieces, heads, group, *shape, int(causal), _bits(scale), factor]


def _lies(a: Any) -> Any:
    """What of an array a call depends on: its shape, and the bytes between elements of its first three dimensions."""
    return None if a is None else (a.shape, a.strides)


def _mask_steps(mask: Any, keep: Any) -> list[int]:
    """How a mask (B or 1, heads or 1, L or 1, S or 1) lies, and the bytes (B, heads, L, S) of what is kept."""
    first = _ZEROS[:4] if mask is None else [0 if n == 1 else s for n, s in zip(*mask)]
    return [0, *first, 0, *(_ZEROS[:3] if keep is None else keep[1][:3])]


@functools.lru_cache(4096)
def _forward_call(
    code: str, short: str | None, q: Any, k: Any, v: Any, mask: Any, keep: Any, depth: int, order: tuple[int, ...],
    scale: float, causal: bool, group: int, dropout: float, cores: int,
) -> _Call:  # fmt: skip
    (batch, heads, length, width), keys, full = q[0], k[0][2], v[0][3]
    lay = _layout(code, length)
    dropped = keep is not None
    if length <= few.MOST and not dropped:
        address, pieces = few.attention(code, short), batch * heads * length
        size = few.scratch(code, keys)
    else:
        address = kernels.attention(lay, short, dropped)
        pieces = batch * heads * -(-length // (kernels.CHUNK * lay.columns))
        size = kernels.forward_scratch(lay, width, full, dropped)
    element = SIZE[code]
    out = _Room((batch, heads, length, depth), element, lay.unit, order)
    total = _Room((batch, heads, 1, length), element, 1, _PLAIN)
    words = _numbers(q, k, v, pieces, heads, group, scale, causal, dropout)
    places = [10, 14, 18, 22, 26, 30, 35]
    for strides in (q[1], k[1], v[1], out.strides):
        words += [0, *strides[:3]]
    words += [0, *total.strides[:2], element, *_mask_steps(mask, keep)]
    return _Call(address, words, places, size, pieces, batch * heads * length * keys * (width + depth), [out, total])


def forward(
    q: Any, k: Any, v: Any, mask: Any, keep: Any, scale: float, causal: bool, group: int, dropout: float,
    short: str | None,
) -> Any:  # fmt: skip
    """softmax(q k' * scale + mask) v and, for each query, the logarithm of its sum of exponentials."""
    d = q.dtype
    code, shape, depth = _CODES[d], (*q.shape[:-1], v.shape[-1]), v.shape[-1]
    unit = _layout(code, shape[-2]).unit
    order = _order(_four(q))
    q, k, v = _operand(q, unit), _operand(k, unit), _operand(v, unit)
    keep = None if keep is None else _four(keep)
    call = _forward_call(
        code, short, _lies(q), _lies(k), _lies(v), _lies(mask), _lies(keep), depth, order, scale, causal, group, dropout,
        threads.get_num_threads(),
    )  # fmt: skip
    out, total = [room.make(d) for room in call.rooms]
    call(q, k, v, out, total, mask, keep)
    return _cut(out, depth, shape), total.reshape(shape[:-1])


@functools.lru_cache(4096)
def _backward_call(
    code: str, short: str | None, g: Any, q: Any, k: Any, v: Any, out: Any, mask: Any, keep: Any, depth: int,
    width: int, scale: float, causal: bool, group: int, dropout: float, cores: int,
) -> _Call:  # fmt: skip
    lay = _layout(code, q[0][2])
    (batch, heads, length, full), keys = q[0], k[0][2]
    order = _BESIDE
    element = SIZE[code]
    rooms = [_Room((*a[0][:3], n), element, lay.unit, order) for a, n in ((q, width), (k, width), (v, depth))]
    pieces = batch * heads // group
    words = _numbers(q, k, v, pieces, heads // group, group, scale, causal, dropout)
    places = [*range(10, 47, 4), 51]
    for strides in (q[1], k[1], v[1], out[1]):
        words += [0, *strides[:3]]
    words += [0, element * heads * length, element * length, element]
    for strides in (g[1], *[room.strides for room in rooms]):
        words += [0, *strides[:3]]
    words += _mask_steps(mask, keep)
    size = kernels.backward_scratch(lay, full, v[0][3], keep is not None)
    address = kernels.attention_backward(lay, short, keep is not None)
    return _Call(address, words, places, size, pieces, 3 * batch * heads * length * keys * (full + v[0][3]), rooms)


def backward(
    g: Any, q: Any, k: Any, v: Any, mask: Any, keep: Any, out: Any, total: Any, scale: float, causal: bool,
    group: int, dropout: float, short: str | None,
) -> Any:  # fmt: skip
    """The gradients by q, k and v."""
    d, shapes = q.dtype, (q.shape, k.shape, v.shape)
    unit = _layout(_CODES[d], q.shape[-2]).unit
    g, q, k, v, out = [_operand(a, unit) for a in (g, q, k, v, out)]
    keep = None if keep is None else _four(keep)
    call = _backward_call(
        _CODES[d], short, _lies(g), _lies(q), _lies(k), _lies(v), _lies(out), _lies(mask), _lies(keep), shapes[2][-1],
        shapes[0][-1], scale, causal, group, dropout, threads.get_num_threads(),
    )  # fmt: skip
    made = [room.make(d) for room in call.rooms]
    call(q, k, v, out, np.ascontiguousarray(total), g, *made, mask, keep)
    if short:
        made[1] *= d.type(scale)
    return tuple([_cut(a, s[-1], s) for a, s in zip(made, shapes)])
