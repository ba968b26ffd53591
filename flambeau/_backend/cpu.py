"""The CPU: NumPy arrays, ufuncs made by the kernel generator, large ones split over the cores."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from .._core import allocation
from .._core.allocation import empty, filler, zeros
from .._core.dtypes import bfloat16
from .._kernel.loops import pointwise
from .._kernel.loops.ufunc import addresses, splitting
from .._kernel.native import direct
from .._kernel.native.direct import start_of as start_of
from .._kernel.native.walks import Rows, in_long_rows, merged_dims, rows_of, ways_of
from .._kernel.threads import pool
from . import copies, threads
from . import memory as memory  # allocates large arrays
from .cpu_rows import RowKernels
from .heap import keep_freed_memory

_NONE = np.asarray(0)
_LINE = 64  # bytes that come from memory together
_PAGES = 1536  # whose places are known without a search
_SAME_PLACE = 1024  # bytes: lines at multiples of this distance compete for few places of a cache


class Errors:
    """Where kernels say that they met wrong targets."""

    def word(self) -> tuple[Any, Any]:
        """What a program adds the number of wrong targets to, as an operand and as a result."""
        return _NONE, empty((), np.bool_)

    def found(self, word: Any) -> bool:
        return bool(word)


class Cpu:
    name, bits = "cpu", 0  # `bits`: what `_k` of its tensors has
    errors = Errors()
    xp = np
    launches = None  # lists of what a device does by itself
    attention = None  # kernels of a device's own, which take 16-bit floats as they are

    @staticmethod
    def convolves(dtype: Any) -> bool:
        """Whether a library convolves arrays of a dtype."""
        return False

    def __init__(self) -> None:
        self.along = RowKernels(self)

    def pointwise(
        self, name: str, body: Any, inputs: tuple[str, ...], outputs: tuple[str, ...], compute: tuple[str, ...]
    ) -> Callable[..., Any]:
        ufunc = pointwise.pointwise_ufunc(name, body, inputs, outputs, compute)
        if "bf16" not in inputs and "bf16" not in outputs:
            return ufunc
        return _through_bits(ufunc, inputs, outputs)

    @functools.cache  # noqa: B019  # there is one CPU
    def kernel(self, kernel: Any, types: tuple[str, ...], **options: Any) -> Callable[..., Any]:
        ufunc = kernel(types, **options)
        if "bf16" not in types:
            return ufunc
        count = len(kernel.inputs)
        return _through_bits(ufunc, types[:count], types[count:])

    @functools.cache  # noqa: B019
    def small(self, kernel: Any, types: tuple[str, ...], **options: Any) -> Callable[..., Any]:
        """Like `kernel`, for calls on little data with all results given, which do not overlap the operands."""
        found = self.kernel(kernel, types, **options)
        return found if "bf16" in types else direct.direct(found)

    @functools.cache  # noqa: B019
    def large(self, kernel: Any, types: tuple[str, ...], **options: Any) -> Callable[..., Any]:
        """Like `kernel`, for calls on much data: splits the first of the dimensions before the core ones."""
        return _on_all_cores(self.kernel(kernel, types, **options))

    @functools.cache  # noqa: B019
    def form(self, large: bool, kernel: Any, types: tuple[str, ...], **options: Any) -> Callable[..., Any]:
        """The `large` or the `small` form of a kernel."""
        return (self.large if large else self.small)(kernel, types, **options)

    def sized(self, work: int, kernel: Any, types: tuple[str, ...], **options: Any) -> Callable[..., Any]:
        """The form of a kernel that so much work pays for."""
        return self.form(work >= threads.WORTHWHILE, kernel, types, **options)

    def into(self, call: Callable[..., Any], arrays: list[Any], out: Any) -> Any:
        """A pointwise callable over operands that broadcast to `out`, split over the cores if that pays."""
        if not threads.pay(out.size) or out.__class__ is not np.ndarray or _overlaps(out, arrays):  # or it is watched
            call(*arrays, out=out)  # NumPy copies operands that would be overwritten
            return out
        dense = out.flags.c_contiguous
        if (
            dense and out.nbytes >= pool.settings[2] and not any(a is out for a in arrays)
        ):  # in place it is in the caches
            call = _past_caches(call, out.nbytes >= pool.settings[1])
        if dense and all(a.shape == out.shape and a.flags.c_contiguous for a in arrays):
            call(*arrays, out=out)  # one loop, which splits itself
            return out
        turned = better_turned([(a.shape, a.strides, a.itemsize) for a in (*arrays, out)])
        if turned:  # neighbours of the result lie apart in these: to turn them takes less time than to fetch so
            arrays = [copies.in_order_of(out, a) if i in turned else a for i, a in enumerate(arrays)]
        operands = [*arrays, out]
        count = threads.parts(out.size)
        found = _walks(call, count, *[(a.shape, a.strides, a.dtype) for a in operands])
        if found is None or not all([a.flags.aligned for a in operands]):
            call(*arrays, out=out)
            return out
        repeated, walks = found
        for one in repeated:
            extents, (strides, _) = one.ends()
            operands[one.number] = np.ascontiguousarray(as_strided(operands[one.number], extents, strides))
        starts = [start_of(a) for a in operands]
        for words, begin in walks:
            pool.run_walk(words, [start + first for start, first in zip(starts, begin)], count)
        return out

    def widest(self, call: Callable[..., Any], operands: list[Any], outer: int, work: int) -> None:
        """A kernel of a size (`sized`) over operands that have `outer` dimensions of one shape before its own: cores share the
        widest of them if `work` pays for it."""
        if outer > 1 and threads.pay(work):
            shape = operands[0].shape[:outer]
            axis = shape.index(max(shape))
            operands = [a.transpose(axis, *[d for d in range(a.ndim) if d != axis]) for a in operands]
        call(*operands)

    def columns(self, call: Callable[..., Any], operands: list[Any], work: int, least: int = 64) -> None:
        """The same over operands whose last dimension are columns that have nothing to do with each other: cores share these."""
        parts = threads.ranges(operands[0].shape[-1], least, work)
        cut = len(parts) > 1
        self.side_by_side(call, [[a[..., low:high] for a in operands] for low, high in parts] if cut else [operands])

    def batch(self, call: Any, operands: list[Any], work: int) -> None:
        """A generalized ufunc over a batch, which is split over the cores if `work` multiplications pay for it."""
        found = _described(call, *[(a.shape, a.strides, a.dtype) for a in operands])
        if found is not None and found[1][0] > 1:  # for extents that say little about the work
            call = splitting(call, 1 << max(1, 2 * work // math.prod(found[1])).bit_length())
        call(*operands)

    def side_by_side(self, call: Callable[..., Any], operands: list[list[Any]]) -> None:
        """Calls of one generalized ufunc with different operands (outputs last), on the cores."""
        if len(operands) == 1:
            call(*operands[0])
            return
        if allocation.watcher is not None and allocation.watcher.here():
            allocation.watcher.side_by_side(call, operands)
            return
        found = [native_call(call, given) for given in operands]
        if None in found:
            threads.run([functools.partial(call, *given) for given in operands])
        else:
            pool.run_calls(found, min(len(operands), threads.get_num_threads()))  # type: ignore[arg-type]

    def empty(self, shape: Any, dtype: Any) -> Any:
        return empty(shape, dtype)

    def zeros(self, shape: Any, dtype: Any) -> Any:
        return zeros(shape, dtype)

    def constant(self, array: Any) -> Any:
        return array

    def asnumpy(self, array: Any) -> Any:
        return array


def _overlaps(out: Any, arrays: list[Any]) -> bool:
    """Whether a result may lie in the memory of an operand that it is not."""
    return any([a is not out and np.may_share_memory(a, out) for a in arrays])


def _fill(array: Any, value: Any) -> None:
    """`array.fill(value)` by all cores, for dense arrays."""
    code = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}.get(array.itemsize)
    if code is None or not array.flags.forc or not array.flags.aligned or not array.flags.writeable:
        array.fill(value)
        return
    item = np.empty(1, array.dtype)
    item.fill(value)
    count = threads.get_num_threads()
    pool.drive(
        pointwise.fill_loop(code), count, count, [start_of(item), start_of(array)], array.size, [0, array.itemsize]
    )


filler[0] = _fill


def native_call(call: Any, operands: list[Any]) -> tuple[int, list[int], list[int], list[int]] | None:
    """A generalized ufunc's loop with its arguments, (address, operand addresses, extents, steps), for the pool.

    Operands have their core dimensions and at most one loop dimension before them. None if something does not fit:
    then the ufunc itself is to be called, which checks and converts.
    """
    lies = []
    for a in operands:
        if not a.flags.aligned:
            return None
        lies.append((a.shape, a.strides, a.dtype))
    found = _described(call, *lies)
    if found is None:
        return None
    address, extents, steps = found
    return address, [start_of(a) for a in operands], extents, steps


@functools.lru_cache(4096)
def _described(
    call: Any, *operands: tuple[tuple[int, ...], tuple[int, ...], Any]
) -> tuple[int, list[int], list[int]] | None:
    """(address of the loop, extents, steps) for operands of such (shape, strides, dtype)."""
    ufunc = getattr(call, "ufunc", call)
    address = addresses.get(ufunc)
    if address is None or len(operands) > pool.MOST_OPERANDS or not ufunc.signature:
        return None
    wanted = getattr(call, "dtypes", None) or _loop_dtypes(call)  # bfloat16 is known to the ufunc by its bits
    if any(d != t or not d.isnative for (_, _, d), t in zip(operands, wanted, strict=True)):
        return None
    core: dict[str, int] = {}
    length = 1
    steps: list[int] = []
    inner: list[int] = []
    for (shape, strides, _), names in zip(operands, _core_names(ufunc.signature)):
        loops = len(shape) - len(names)
        if loops not in (0, 1):
            return None
        step = 0
        if loops and shape[0] != 1:
            if length not in (1, shape[0]):
                return None
            length, step = shape[0], strides[0]
        steps.append(step)
        for name, n in zip(names, shape[loops:]):
            if core.setdefault(name, n) != n:
                return None
        inner += strides[loops:]
    if len(core) > 15 or len(steps) + len(inner) > 48:
        return None
    return address, [length, *core.values()], steps + inner


@functools.cache
def _core_names(signature: str) -> list[tuple[str, ...]]:
    """The core dimensions of each operand of a generalized ufunc, by name."""
    return [tuple(re.findall(r"\w+", operand)) for operand in re.findall(r"\(([^)]*)\)", signature)]


@functools.cache
def _loop_dtypes(ufunc: Any) -> list[Any]:
    return [np.dtype(c) for c in ufunc.types[0].replace("->", "")]


def better_turned(operands: list[tuple[tuple[int, ...], tuple[int, ...], int]]) -> list[int]:
    """Which operands of such (shape, strides, bytes of an element), the result last, are better turned before a loop over all.

    Neighbours of the result lie apart in these, more of them than caches hold lines at such distances.
    """
    *given, (shape, strides, _) = operands
    return [
        i
        for i, (own, steps, size) in enumerate(given)
        if own == shape and steps != strides and _lies_across(shape, steps, strides, size)
    ]


@functools.lru_cache(4096)
def _lies_across(shape: tuple[int, ...], steps: tuple[int, ...], strides: tuple[int, ...], size: int) -> bool:
    *outer, (inner, (step, _)) = merged_dims([(shape, steps), (shape, strides)], shape) or [(1, [0, 0])]
    sides = min([n for n, (along, _) in outer if along == size], default=0), inner
    scattered = inner > _PAGES or not step % _SAME_PLACE
    return size in copies.turning.TYPES and step != 0 and min(sides) >= _LINE // size and scattered


@functools.lru_cache(4096)
def _walks(call: Any, count: int, *operands: tuple[tuple[int, ...], tuple[int, ...], Any]) -> Any:
    """Which operands of a pointwise loop, the result last, of such (shape, strides, dtype) are repeated in memory, and words for the pool
    about the loops over all then, with how many bytes from where operands begin they do.

    None if it is best left to the ufunc itself, which checks and converts.
    """
    address = addresses.get(getattr(call, "ufunc", call))
    wanted = getattr(call, "dtypes", None) or (None if address is None else _loop_dtypes(call))
    if address is None or any(d != w for (_, _, d), w in zip(operands, wanted, strict=True)):
        return None
    lies, shape = [(shape, strides) for shape, strides, _ in operands], operands[-1][0]
    plan = rows_of(lies, shape)
    if plan is None:
        return None
    length, steps, outer, strides = plan
    if not outer:  # one loop, which splits itself
        return None
    repeated, rows = in_long_rows(shape, ways_of(lies, shape), [d.itemsize for *_, d in operands]) or (
        [],
        [Rows(length, steps, outer, strides, [0] * len(operands))],
    )
    return repeated, [
        (
            pool.walk(address, pool.EACH * count, len(operands), r.length, r.steps, (), tuple(r.outer), r.strides),
            r.begin,
        )
        for r in rows
    ]


@functools.cache
def _past_caches(call: Any, heavy: bool) -> Any:
    """The callable of a pointwise ufunc that writes its result past the caches; the same one of a `heavy` body unless that is said."""
    ufunc = getattr(call, "ufunc", call)
    if not heavy and not pointwise.is_light(ufunc):
        return call
    made = pointwise.past_caches(ufunc)
    return made if ufunc is call else _through_bits(made, *call.types)


@functools.cache
def _on_all_cores(call: Any) -> Any:
    """The callable of a generalized ufunc that splits its own loop."""
    if hasattr(call, "ufunc"):
        return _through_bits(splitting(call.ufunc), *call.types)
    return splitting(call)


def _through_bits(ufunc: Any, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Callable[..., Any]:
    """NumPy knows bfloat16 only as a foreign type: the ufunc gets its bits."""
    half, bits = bfloat16.numpy, np.dtype(np.uint16)
    is_half = [t == "bf16" for t in inputs]
    out_half = [t == "bf16" for t in outputs]

    def as_bits(a: Any) -> Any:
        if a.dtype != half:  # its bits would be taken for something else
            raise TypeError(f"a kernel for bfloat16 was given {a.dtype}")
        return a.view(bits)

    def call(*arrays: Any, out: Any = None) -> Any:
        given = [as_bits(a) if h else a for a, h in zip(arrays, is_half)]
        targets = list(arrays[len(inputs) :]) or (
            [out] if out is not None and not isinstance(out, tuple) else list(out or ())
        )
        if targets:
            ufunc(*given, *[as_bits(t) if h else t for t, h in zip(targets, out_half)])
            return targets[0] if len(targets) == 1 else tuple(targets)
        result = ufunc(*given)
        if len(outputs) == 1:
            return result.view(half) if out_half[0] else result
        return tuple(r.view(half) if h else r for r, h in zip(result, out_half))

    call.ufunc, call.types = ufunc, (inputs, outputs)  # type: ignore[attr-defined]
    call.dtypes = [
        half if t == "bf16" else np.dtype(c) for t, c in zip((*inputs, *outputs), ufunc.types[0].replace("->", ""))
    ]
    return call


cpu = Cpu()
keep_freed_memory()
