"""Copies of arrays that lie in memory in any order, large ones by all cores."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.allocation import SHARED, empty, empty_like
from .._core.layouts import is_disjoint, like_strides, memory_order
from .._kernel.loops.lang import independent, kernel, strands
from .._kernel.loops.pointwise import past_caches, pointwise_loop, pointwise_ufunc
from .._kernel.loops.ufunc import addresses
from .._kernel.native.direct import start_of
from .._kernel.native.walks import merged_dims
from .._kernel.places import turning
from .._kernel.render.streaming import FURTHER, ask_for, ask_to_write, width
from .._kernel.render.value import SIZE
from .._kernel.threads import pool
from . import threads

LARGE = 1 << 14  # elements from which blocks and threads pay for arrays in another order
_BLOCK = 64
_BITS = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}
_CODES = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "c128"}
_LINES = 16  # that one loop copies, at least
_STRANDS = 4  # lines that vectors of the machine take apart and put together


@kernel("(n)->(n)")
def copy_line(m: Any, x: Any, out: Any, backwards: bool) -> None:
    """The elements of x, from the end of the result on if `backwards`: caches foresee reads that go on."""
    for i in independent(x.n):
        out[x.n - 1 - i if backwards else i] = x[i]


@kernel("(k,n)->(k,n)")
def copy_lines(m: Any, x: Any, out: Any, backwards: bool) -> None:
    """Lines of much memory: if their elements follow each other, what lies some way ahead is asked for, unless that lies beyond the last
    line: there nobody needs it, and it may be on a page that has to be looked up. Of a `backwards` line the first element goes to the end."""
    group = width(x.type) if x.dense and out.dense else 0
    ahead = m.value(FURTHER // SIZE[x.type], "i64")
    long = x.n > ahead
    near = m.minimum(ahead // m.maximum(x.n, 1), x.shape[0] >> 2) + 1
    later, shift = m.where(long, 0, near), m.where(long, ahead, 0)
    whole = x.n & -group
    for i in range(x.shape[0]):
        asked = m.where(i + later < x.shape[0], whole, 0)
        if group:
            for start in range(0, asked, group):
                to = x.n - group - start if backwards else start
                ask_for(x, (i + later, start + shift), group)
                ask_to_write(out, (i + later, to - shift if backwards else to + shift), group, 0)
                for c in independent(group):
                    out[i, to + (group - 1 - c) if backwards else to + c] = x[i, start + c]
        for c in independent(asked, x.n):
            out[i, x.n - 1 - c if backwards else c] = x[i, c]


@kernel("(n,m)->(p)")
def braid(m: Any, x: Any, out: Any, count: int) -> None:
    """`count` lines as one, element by element in turn."""
    for i in independent(x.n):
        for j in strands(count):
            out[i * count + j] = x[j, i]


@kernel("(p)->(n,m)")
def unbraid(m: Any, x: Any, out: Any, count: int) -> None:
    """`count` lines of what one line has in turn."""
    for i in independent(out.n):
        for j in strands(count):
            out[j, i] = x[i * count + j]


def row_major(x: Any) -> Any:
    """A copy whose last dimension is the innermost in memory."""
    if (x.nbytes < SHARED and (x.size < LARGE or x.flags.c_contiguous)) or x.__class__ is not np.ndarray:
        return x.copy("C")
    out = empty(x.shape, x.dtype)
    fill(out, x)
    return out


def duplicate(x: Any) -> Any:
    """A copy whose dimensions lie in memory in the same order."""
    if not isinstance(x, np.ndarray):  # on a GPU; CuPy would put what is repeated innermost, too
        made = x.transpose(memory_order(x.shape, x.strides)).copy("C")
        strides = like_strides(x.shape, x.strides, x.itemsize)
        return x.__class__(x.shape, x.dtype, made.data, tuple([s * x.itemsize for s in strides]))
    if x.__class__ is not np.ndarray:
        return x.copy("K")
    # NumPy would put what is repeated innermost, and forgets strides of extents of 1
    others = 0 in x.strides or 1 in x.shape
    if x.nbytes < SHARED and not others:
        return x.copy("K")
    out = empty_like(x, x.dtype)
    place(out, x)
    return out


def with_gaps(x: Any) -> Any:
    """A copy with the very strides of `x`, even if these leave gaps, unless elements of `x` share memory."""
    if x.__class__ is not np.ndarray or not x.size or x.flags.forc or not is_disjoint(x.shape, x.strides, x.itemsize):
        return duplicate(x)
    reach = sum([(n - 1) * s for n, s in zip(x.shape, x.strides)]) + x.itemsize
    out = np.ndarray(x.shape, x.dtype, np.zeros(reach, np.uint8), 0, x.strides)
    place(out, x)
    return out


def in_order_of(x: Any, made: Any) -> Any:
    """The elements of `made`, a result of the shape of `x`, in the memory order of `x`."""
    if not isinstance(x, np.ndarray) or (x.flags.c_contiguous and made.flags.c_contiguous):
        return made
    out = empty_like(x, made.dtype)
    place(out, made)
    return out


def rows_of(x: Any) -> Any:
    """The array itself if it is row-major, otherwise a copy that is."""
    return x if x.flags.c_contiguous else row_major(x)


def place(out: Any, x: Any) -> None:
    """`out[...] = x` for arrays of one dtype, of which `x` broadcasts."""
    few = out.nbytes < SHARED and (out.size < LARGE or x.flags.c_contiguous)
    if few or out.__class__ is not np.ndarray or np.may_share_memory(out, x):
        out[...] = x
    else:
        fill(out, x if x.shape == out.shape else np.broadcast_to(x, out.shape))


def fill(out: Any, x: Any) -> None:
    """Writes an array into another one of the same shape and dtype that shares no memory with it."""
    bits = _BITS.get(x.itemsize)
    if bits is not None:  # NumPy copies its own integers faster than foreign types
        out, x = out.view(bits), x.view(bits)
    if x.itemsize in _CODES and x.flags.c_contiguous and out.flags.c_contiguous:
        _mover(_CODES[x.itemsize], out.nbytes >= pool.settings[2])(x, out)  # one loop, which shares its work by itself
        return
    count = threads.get_num_threads()
    plan = _plan(x.itemsize, count, x.shape, x.strides, out.strides)
    if plan is None or not x.flags.aligned or not out.flags.aligned:
        _fill_in_blocks(out, x)
    else:
        plan(start_of(x), start_of(out))


def _move(m: Any, x: Any) -> Any:
    return x


@functools.cache
def _mover(code: str, far: bool) -> Any:
    made = pointwise_ufunc("move", _move, (code,), (code,), (code,))
    return past_caches(made) if far else made


@functools.lru_cache(1024)
def _plan(size: int, count: int, shape: tuple[int, ...], source: tuple[int, ...], target: tuple[int, ...]) -> Any:
    """How `count` threads copy between arrays of such strides, as a function of their addresses.

    None if there is nothing to copy, if NumPy has to do it, or if the source's neighbours are not those of the target.
    """
    dims = merged_dims([(shape, source), (shape, target)], shape)
    if not dims or 0 in shape or size not in _CODES:
        return None
    n, (step, to) = dims.pop()
    if (
        dims and step == to == size and n * size in _CODES
    ):  # a run as long as an element of another type is copied as one of those
        size *= n
        few = size not in turning.TYPES or dims[-1][0] < turning.lanes(size)
        n, (step, to) = dims.pop(_nearest(dims) if few else -1)
    if len(dims) >= pool.MOST_DIMS:
        return None
    if step and any(0 < abs(steps[0]) < abs(step) for _, steps in dims):
        return _turned_plan(size, count, n, step, to, dims)
    if not step and n <= _STRANDS and any(steps == [size, n * size] for _, steps in dims):  # each element so often
        return _turned_plan(size, count, n, step, to, dims)
    near = n * math.prod([d for d, _ in dims]) * size < pool.settings[2]
    along = to == size and size in _BITS and (not step or (step == size and near))
    backwards = step == -size
    loop = addresses[copy_line((_CODES[size], _CODES[size]), backwards=backwards)]
    jobs = pool.EACH * count
    if not dims and not along:
        return _line_plan(loop, jobs, count, n, step, to, backwards)
    if math.prod([d for d, _ in dims]) < jobs:  # few long lines: cut into equal parts
        part = next((n // p for p in range(jobs, 4 * jobs) if n % p == 0), n)
        dims.append((n // part, [part * step, part * to]))
        n = part
    if along:
        return _rows_plan(size, count, n, step, dims)
    first, at = (n - 1) * step if backwards else 0, 0  # the kernel wants the lowest address
    for i, (d, (down, into)) in enumerate(dims):
        if down < 0:  # caches foresee reads that go on
            first, at = first + (d - 1) * down, at + (d - 1) * into
            dims[i] = d, [-down, -into]
    if len(dims) > 1 and dims[-1][0] < min(
        _LINES, dims[-2][0]
    ):  # a loop over few lines takes as long to begin as to run
        dims[-2:] = dims[:-3:-1]
    core = [abs(step) if backwards else step, to]
    length, steps = dims.pop()
    rows = math.prod([d for d, _ in dims])
    if length > 64 or rows < jobs:  # cut, so that there is work for all threads
        part = next(p for p in (64, 32, 16, 8, 4, 2, 1) if length % p == 0 and (p == 1 or rows * length >= p * jobs))
        dims.append((length // part, [part * s for s in steps]))
        length = part
    outer, strides = tuple([d for d, _ in dims]), [tuple([s[i] for _, s in dims]) for i in range(2)]
    if abs(step) == to == size:
        loop = addresses[copy_lines((_CODES[size], _CODES[size]), backwards=backwards, adjacent=True)]
        words = pool.walk(loop, jobs, 2, 1, [0, 0, steps[0], size, steps[1], size], (length, n), outer, strides)
    else:
        words = pool.walk(loop, jobs, 2, length, [*steps, *core], (n,), outer, strides)
    return lambda x, out: pool.run_walk(words, [x + first, out + at], count)


def _nearest(dims: list[tuple[int, list[int]]]) -> int:
    """The dimension along which the source's elements are nearest to each other."""
    return min(range(len(dims)), key=lambda d: abs(dims[d][1][0]) or math.inf)


def _rows_plan(size: int, count: int, n: int, step: int, dims: list[tuple[int, list[int]]]) -> Any:
    """The same along lines that the caches hold, or that have one value each."""
    code = _CODES[size]
    loop, *_ = pointwise_loop(_move, (code,), (code,), (code,), (step, size), False, True)
    outer, strides = tuple([d for d, _ in dims]), [tuple([s[i] for _, s in dims]) for i in range(2)]
    words = pool.walk(loop, pool.EACH * count, 2, n, [step, size], (), outer, strides)
    return lambda x, out: pool.run_walk(words, [x, out], count)


def _turned_plan(size: int, count: int, n: int, step: int, to: int, dims: list[tuple[int, list[int]]]) -> Any:
    """The same where neighbours of the target lie apart in the source, and others side by side."""
    at = next((i for i, (_, steps) in enumerate(dims) if steps[0] == size), None)
    if to != size or at is None:
        return None
    m, (_, down) = dims.pop(at)
    braided, unbraided = n <= _STRANDS and down == n * size, m <= _STRANDS and step == m * size
    if not braided and not unbraided and size not in turning.TYPES:
        return None
    jobs = pool.EACH * count
    rows, line = math.prod([d for d, _ in dims]), n if unbraided else m
    if count > 1 and rows < jobs:  # cut, so that there is work for all threads
        part = next((p for p in range(128, 15, -16) if line % p == 0 and rows * line >= p * count), line)
        dims.append((line // part, [part * step, part * to] if unbraided else [part * size, part * down]))
        n, m = (part, m) if unbraided else (n, part)
    length, steps = dims.pop() if dims else (1, [0, 0])
    if count > 1 and length > 1:  # threads take whole loops
        dims.append((length, steps))
        length, steps = 1, [0, 0]
    shape, strides = tuple([d for d, _ in dims]), [tuple([s[i] for _, s in dims]) for i in range(2)]
    types = _CODES[size], _CODES[size]
    if unbraided:
        loop, core, extents = addresses[unbraid(types, count=m)], [size, down, size], (m * n, m, n)
    elif braided:
        loop, core, extents = addresses[braid(types, count=n)], [step, size, size], (n, m, m * n)
    else:
        loop, core, extents = turning.turn(size), [size, step, down, size], (m, n)
    if not shape:
        shape, strides = (1,), [(0,), (0,)]
    words = pool.walk(loop, jobs, 2, length, [*steps, *core], extents, shape, strides)
    return lambda x, out: pool.run_walk(words, [x, out], count)


def _line_plan(loop: int, jobs: int, count: int, n: int, step: int, to: int, backwards: bool) -> Callable[..., None]:
    """The same for a single dimension."""
    bounds = [n * i // jobs for i in range(jobs + 1)]
    parts = [(a, b) for a, b in itertools.pairwise(bounds) if a < b]
    steps = [0, 0, abs(step) if backwards else step, to]

    def run(x: int, out: int) -> None:
        pool.run_calls(
            [(loop, [x + (b - 1 if backwards else a) * step, out + a * to], [1, b - a], steps) for a, b in parts], count
        )

    return run


def _fill_in_blocks(out: Any, x: Any) -> None:
    """Copies blocks that fit the cache."""
    if not x.ndim:
        out[...] = x
        return
    width = x.shape[-1]
    steps = [(abs(s), d) for d, (s, n) in enumerate(zip(x.strides, x.shape)) if n > 1 and s]
    turned = bool(steps) and min(steps)[1] != x.ndim - 1
    step = _BLOCK if turned and x.strides[-1] and width > _BLOCK else max(width, 1)
    axis = max(range(x.ndim), key=lambda d: (x.shape[d] >= 8, -d))

    def job(start: int, stop: int) -> Callable[[], None]:
        part = (slice(None),) * axis + (slice(start, stop),)
        source, target = x[part], out[part]

        def run() -> None:
            for j in range(0, source.shape[-1], step):
                target[..., j : j + step] = source[..., j : j + step]

        return run

    threads.run([job(*bounds) for bounds in threads.ranges(x.shape[axis])])
