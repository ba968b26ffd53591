"""Plans of pointwise operations: one native loop over operands that lie alike, or a few over such that do not."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from ..._backend import threads
from ..._backend.cpu import better_turned, cpu
from ..._core.dtypes import BY_NUMPY, FLOATING, INTEGER, bool_, float32, int64
from ..._core.sizes import contiguous_strides
from ..._kernel.loops.ufunc import addresses, loops
from ..._kernel.native.entry import RESULTS
from ..._kernel.native.plan import Plan
from ..._kernel.native.walks import arrangement, in_long_rows, merged
from ..._kernel.threads import pool
from ..._tensor import Tensor
from ..records.casting import cast_kernel, moving

_LONG = 1 << 14  # elements from which other threads of the interpreter are given a chance
_JOBS = 64  # parts that threads take of a large walk
# Where an entry has a number: as float64, float32 or int64; behind the second there is room for 16 bits and an answer.
_SHORT, _ANSWER = 12, 14
_NUMBER = {("f", float): 8, ("f", int): 8, ("d", float): 0, ("d", int): 0, ("q", int): 16, ("l", int): 16}


def is_alike(args: Sequence[Any]) -> bool:
    """Whether all tensors have one shape and are row-major."""
    arrays = [a._array for a in args if isinstance(a, Tensor)]
    shape = arrays[0].shape
    return all([a.shape == shape and a.flags.c_contiguous and a.flags.aligned for a in arrays])


def plan(op: Any, args: Sequence[Any], record: Any, runtime: int, alike: bool, in_place: bool = False) -> Plan | None:
    """The plan of a call with plain tensors (and numbers beside them, in places of `runtime`), whose result is new, or goes to the
    first of them; None if it takes another way."""
    op = op.for_number(args)
    function, (result,), compute = op.variant(cpu, op.common(args))
    ufunc = bare(function)
    if ufunc not in loops or not result.code:
        return None
    arrays = [a._array for a in args if isinstance(a, Tensor)]
    shape, strides = ((), ()) if alike else arrangement(arrays, op.rows)
    size = math.prod(shape)
    if not alike and not (
        size and size * result.itemsize < pool.settings[1] and all([a.flags.aligned for a in arrays])
    ):
        return None
    if threads.pay(size) and better_turned(
        [(a.shape, a.strides, a.itemsize) for a in arrays] + [(shape, tuple([s * result.itemsize for s in strides]), 0)]
    ):
        return None
    made = Plan(len(args), record)
    made.long = not alike and size >= _LONG
    in_rows = alike or strides == contiguous_strides(shape)
    if in_place:
        first = args[0]._array
        if (
            not in_rows
            or args[0].dtype is not result
            or not (alike or (first.shape == shape and first.flags.c_contiguous))
        ):
            return None
        target = made.written(result, [_span(a, args[0], alike) for a in args])
    else:
        target = made.result(result, shape, None if in_rows else [s * result.itemsize for s in strides])
    operands: list[tuple[int, int]] = []
    sizes: list[int] = []  # bytes of an element
    ways: list[list[int]] = []  # strides of each operand along the result's dimensions
    for i, a in enumerate(args):
        wanted = bool_ if i in op.masks else compute if i < op.arity else compute.wide
        sizes.append(wanted.itemsize)
        if isinstance(a, Tensor):
            x = a._array
            source, own = i + 1, x.strides
            if a.dtype is not wanted:
                cast = bare(cast_kernel(a.dtype, wanted))
                if cast not in loops:
                    return None
                source = made.result(wanted, () if alike else x.shape, returned=False)
                own = [s * wanted.itemsize for s in contiguous_strides(x.shape)]
                ends = [[a.dtype.itemsize], [wanted.itemsize]] if alike else [list(x.strides), own]
                both = [a.dtype.itemsize, wanted.itemsize]
                _walk(made, cast, None if alike else x.shape, ends, [(i + 1, 0), (source, 0)], both)
            operands.append((source, 0))
            if alike:
                ways.append([wanted.itemsize])
            else:
                ways.append([0] * (len(shape) - x.ndim) + [0 if n == 1 else s for n, s in zip(x.shape, own)])
        else:
            short = wanted.itemsize == 2 and wanted.category == FLOATING  # as which entries do not have numbers
            narrow = wanted.itemsize < 8 and wanted.category == INTEGER  # whose lowest bytes are the first
            place = _NUMBER.get((float32.numpy.char if short else "q" if narrow else wanted.numpy.char, a.__class__))
            if place is None or not runtime >> i & 1 or not (narrow or wanted.category == FLOATING or wanted is int64):
                return None
            if narrow:
                made.loop(addresses[bare(_fits(wanted))], None, (1,), (0, 0), [(i + 1, place), (i + 1, _ANSWER)])
                made.expect((i + 1, _ANSWER), True)
            if short:
                cast = bare(cast_kernel(float32, wanted))
                made.loop(addresses[cast], None, (1,), (0, 0), [(i + 1, place), (i + 1, _SHORT)])
            operands.append((i + 1, _SHORT if short else place))
            ways.append([0] * (1 if alike else len(shape)))
    ways.append([result.itemsize] if alike else [s * result.itemsize for s in strides])
    return made if _walk(made, ufunc, None if alike else shape, ways, [*operands, (target, 0)], sizes) else None


@functools.cache
def _fits(d: Any) -> Any:
    """The kernel that says whether an integer is one of a dtype's."""
    return cpu.pointwise("fits", lambda m, n: m.cast(m.cast(n, d.code), "i64") == n, ("i64",), ("b1",), ("i64",))


def _span(a: Any, target: Tensor, alike: bool) -> tuple[int, int, int]:
    """Between which bytes an operand lies (for one element, if all are alike), and whether it may be the target's memory."""
    if not isinstance(a, Tensor):
        return 0, 0, 0
    x, size = a._array, a.dtype.itemsize
    ends = [] if alike else [(n - 1) * s for n, s in zip(x.shape, x.strides)]
    same = a.dtype is target.dtype and (alike or (x.shape, x.strides) == (target._array.shape, target._array.strides))
    return sum([e for e in ends if e < 0]), sum([e for e in ends if e > 0]) + size, int(same)


def bare(call: Any) -> Any:
    return getattr(call, "ufunc", call)  # NumPy knows bfloat16 by its bits


def _walk(
    made: Plan, ufunc: Any, shape: Sequence[int] | None, ways: list[list[int]], operands: list[tuple[int, int]],
    sizes: Sequence[int],
) -> bool:  # fmt: skip
    """Adds a loop over all elements, which have so many bytes, or over as many as there are; False if they have too many dimensions."""
    if shape is None:
        made.loop(*loops[ufunc], (0,), [w[0] for w in ways], operands)
        return True
    if add_long_rows(made, ufunc, shape, ways, operands, sizes):
        return True
    extents, steps = merged(shape, ways)
    *outer, inner = extents or [1]
    if len(outer) > pool.MOST_DIMS or len(operands) > pool.MOST_OPERANDS:
        return False
    add_loop(made, ufunc, [inner], [w[-1] if w else 0 for w in steps], operands, outer, [w[:-1] for w in steps])
    return True


def add_long_rows(
    made: Plan, ufunc: Any, shape: Sequence[int], ways: list[list[int]], operands: list[tuple[int, int]], sizes: Sequence[int]
) -> bool:  # fmt: skip
    """Adds a loop over all elements along longer rows than there are, for which some operands are repeated in memory, if that pays."""
    found = in_long_rows(shape, ways, sizes)
    if found is None or made.counts[0] + len(found[0]) > RESULTS:
        return False
    repeated, rows = found
    if len(rows[0].outer) > pool.MOST_DIMS or len(operands) > pool.MOST_OPERANDS:
        return False
    operands = list(operands)
    for one in repeated:
        copy, d = moving(one.size)
        number = made.result(BY_NUMPY[d], (one.elements,), returned=False)
        extents, ends = one.ends()
        if not _walk(made, bare(copy), extents, ends, [operands[one.number], (number, 0)], [one.size] * 2):
            return False
        operands[one.number] = number, 0
    for row in rows:
        begin = [(number, offset + more) for (number, offset), more in zip(operands, row.begin)]
        add_loop(made, ufunc, [row.length], row.steps, begin, row.outer, row.strides)
    return True


def add_loop(
    made: Plan,
    ufunc: Any,
    dims: Sequence[int],
    steps: list[int],
    operands: list[tuple[int, int]],
    outer: Sequence[int],
    strides: list[list[int]],
) -> None:
    """Adds a ufunc's loop over `dims`, its turns and core sizes, at every place of `outer` sizes.

    On several threads if it is one that splits itself and long enough."""
    address, data = loops[ufunc]
    rows = math.prod(outer)
    weight = pool.weight(address, data)
    if data is None or (weight and rows * math.prod(dims) * weight < pool.WORTHWHILE):
        made.loop(addresses[ufunc], None, dims, steps, operands, outer, strides)
    elif outer and weight:
        lines = [tuple(line) for line in strides]
        words = pool.walk(
            data[0], min(rows, _JOBS), len(operands), dims[0], steps, tuple(dims[1:]), tuple(outer), lines
        )
        made.loop(*pool.spreading(words), dims, steps, operands)
    else:
        made.loop(address, data, dims, steps, operands, outer, strides)
