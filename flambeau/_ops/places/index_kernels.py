"""Array functions behind indexing: reading and writing elements and rows by index, on raw arrays.

Indices are checked before anything is written; the kernels (`_kernel/places/elements.py`) look again at every index they use.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ..._backend import threads
from ..._backend.cpu import cpu
from ..._core.allocation import empty
from ..._core.dtypes import BY_NUMPY
from ..._core.state import CUDA
from ..._dispatch import backend_of
from ..._kernel.places.elements import (
    add_where,
    compress,
    gather_columns,
    gather_elements,
    gather_pairs,
    gather_rows,
    join_indices,
    out_of_range,
    scatter_checked,
    scatter_columns,
    scatter_elements,
    scatter_rows,
)
from ..._kernel.threads import pool
from . import device_marks, device_places
from .device_places import BITS, CODE

# -- helpers -----------------------------------------------------------------------------------------------------


def bits(array: Any) -> Any:
    """The same memory as integers of the elements' width."""
    return array.view(BITS[array.dtype.itemsize][1])


def _code(array: Any) -> str:
    return BY_NUMPY[array.dtype].code


def empty_array(backend: Any, shape: tuple[int, ...], d: Any) -> Any:
    """Fresh memory on a device."""
    return empty(shape, d) if backend is cpu else backend.empty(shape, d)


def as_index(index: Any) -> Any:
    """Indices in a type that the kernels take."""
    return index if index.dtype in CODE else index.astype(np.int64)


_BOOL = np.dtype(np.bool_)


def _any(found: Any) -> bool:
    """`found.any()`, quickly."""
    return b"\1" in found.tobytes() if found.__class__ is np.ndarray else found.any()


@functools.lru_cache(1024)
def _bounds(low: int, high: int) -> Any:
    made = np.array((low, high), np.int64)
    made.flags.writeable = False
    return made


_FIRST: tuple[slice, ...] = ()  # where an operand is cut into parts: along its first dimension,
_SECOND = (slice(None),)  # or its second


def _meets_wrong(
    work: int, kernel: Any, types: tuple[str, ...], operands: Sequence[Any], cuts: Any, rows: Any, **options: Any
) -> Any:
    """Runs a kernel whose last result tells of a wrong index, and says whether there is one.

    If the work pays for threads, they share the dimensions `rows` before the kernel's own, or without such parts of the operands, which
    are cut as `cuts` says (None: not at all).
    """
    many = threads.pay(work)
    call = cpu.form(many, kernel, types, **options)
    if rows or not many:
        found = empty(rows, _BOOL)
        call(*operands, found)
        return _any(found) if rows else found
    length = next(a.shape[len(cut)] for a, cut in zip(operands, cuts) if cut is not None)
    parts = threads.ranges(length, 16)
    found = empty((len(parts), 1), _BOOL)
    jobs: list[list[Any]] = []
    for i, part in enumerate(parts):
        own = [a if cut is None else a[(*cut, slice(*part))] for a, cut in zip(operands, cuts)]
        jobs.append([*own, found[i].reshape(())])
    cpu.side_by_side(call, jobs)
    return _any(found)


def first_outside(backend: Any, index: Any, low: int, high: int, noted: bool = False) -> int | None:
    """The first index outside [low, high), or None, where `low` is 0 or -high. A GPU tells of it later, to who waits for it; what uses
    the index there may have `noted` it, too."""
    if index.size == 0:
        return None
    if backend is not cpu:
        if high <= 0:  # the libraries of GPUs would take the remainder by it
            return int(index.reshape(-1)[0])
        if not noted:
            device_places.note(backend, as_index(index), high, low < 0)
        return None
    flat = as_index(index)
    if flat.ndim != 1 and (not flat.ndim or flat.flags.c_contiguous):
        flat = flat.reshape(-1)
    given, types = (flat, _bounds(low, high)), (CODE[flat.dtype], "i64", "b1")
    if not _meets_wrong(flat.size, out_of_range, types, given, (_FIRST, None), flat.shape[:-1]):
        return None
    wrong = (index < low) | (index >= high)
    return int(index[wrong].reshape(-1)[0])


# -- along one dimension: an index for every element ---------------------------------------------------------------


def _narrowed(x: Any, shape: tuple[int, ...], dim: int) -> Any:
    """x cut to the extents of the index, except along `dim`."""
    own = x.shape
    if own == shape or (own[:dim] == shape[:dim] and own[dim + 1 :] == shape[dim + 1 :]):
        return x
    return x[tuple([slice(None) if i == dim else slice(n) for i, n in enumerate(shape)])]


def as_columns(dim: int, arrays: Sequence[Any], work: int = 0) -> Sequence[Any]:
    """Arrays with `dim`, which is not the last, beside one dimension of columns at the end: all of them, unless so much work is best
    done on little memory at a time."""
    ndim = arrays[0].ndim
    if dim == ndim - 2:
        return arrays
    if not threads.pay(work) and all([a.flags.c_contiguous for a in arrays]):
        return [a.reshape(*a.shape[: dim + 1], -1) for a in arrays]
    order = [*range(dim), *range(dim + 1, ndim - 1), dim, ndim - 1]
    return [a.transpose(order) for a in arrays]


def gather(backend: Any, x: Any, dim: int, index: Any) -> tuple[Any, int | None]:
    """out[…, i, …] = x[…, index[…, i, …], …], and the first index out of range, if any."""
    if x.ndim == 0 or index.ndim == 0:
        out, bad = gather(backend, x.reshape(-1), 0, index.reshape(-1))
        return out.reshape(index.shape), bad
    if index.size == 0:
        return empty_array(backend, index.shape, x.dtype), None
    x = _narrowed(x, index.shape, dim)
    size = x.shape[dim]
    if size == 0:
        return None, int(index.reshape(-1)[0])
    index = as_index(index)
    if backend is not cpu:
        return device_places.read(backend, x, device_places.along(x, dim, index)), None
    out = empty(index.shape, x.dtype)
    code, wide = BITS[x.dtype.itemsize]
    operands: Sequence[Any] = (x.view(wide), index, out.view(wide))
    work, types = index.size, (code, CODE[index.dtype], code, "b1")
    if dim < index.ndim - 1:
        operands = as_columns(dim, operands, work)
        wrong = _meets_wrong(work, gather_columns, types, operands, (_SECOND,) * 3, operands[1].shape[:-2])
    else:
        cuts = None, _FIRST, _FIRST
        wrong = _meets_wrong(work, gather_elements, types, operands, cuts, index.shape[:-1], from_end=False)
    return out, first_outside(backend, index, 0, size) if wrong else None


def scatter_where_valid(backend: Any, x: Any, dim: int, index: Any, values: Any, how: str) -> int | None:
    """`scatter`, and the first index out of range, if any.

    Then nothing is written or, of many elements, only other rows: one pass over the indices looks at them and uses them.
    """
    if backend is not cpu:
        if index.size and x.ndim and not x.shape[dim]:
            return int(index.reshape(-1)[0])
        scatter(backend, x, dim, index, values, how)
        return None
    if (
        not threads.pay(index.size)
        or not dim == index.ndim - 1 > 0
        or values.shape != index.shape
        or not index.flags.c_contiguous
    ):
        bad = first_outside(backend, index, 0, x.shape[dim] if x.ndim else 1)
        if bad is None:
            scatter(backend, x, dim, index, values, how)
        return bad
    index, target = as_index(index), _narrowed(x, index.shape, dim)
    code, wide = BITS[x.dtype.itemsize] if how == "set" else (BY_NUMPY[x.dtype].code, x.dtype)
    found = empty(index.shape[:-1], _BOOL)
    call = cpu.large(scatter_checked, (CODE[index.dtype], code, code, "b1"), how=how)
    call(index, values.view(wide), target.view(wide), found)
    return first_outside(backend, index, 0, target.shape[dim]) if found.any() else None


def scatter(backend: Any, x: Any, dim: int, index: Any, values: Any, how: str) -> None:
    """Combines values into x[…, index[…, i, …], …]. The indices must have been checked, but on a GPU."""
    if index.size == 0:
        return
    if x.ndim == 0 or index.ndim == 0:
        flat = values.reshape(-1) if values.ndim == 0 else values.reshape(-1)[: index.size]
        scatter(backend, x.reshape(-1), 0, index.reshape(-1), flat, how)
        return
    target = _narrowed(x, index.shape, dim)
    if values.ndim and values.shape != index.shape:
        values = values[tuple(slice(n) for n in index.shape)]
    index = as_index(index)
    if backend is not cpu:
        device_places.write(backend, target, device_places.along(target, dim, index), values, how)
        return
    if values.ndim == 0:
        values = np.broadcast_to(values, index.shape)
    code = BY_NUMPY[x.dtype].code
    if how == "set":
        code, wide = BITS[x.dtype.itemsize]
        target, values = target.view(wide), values.view(wide)
    operands: Sequence[Any] = (index, values, target)
    work, types = index.size, (CODE[index.dtype], code, code)
    if dim == index.ndim - 1:
        cpu.sized(work, scatter_elements, types, how=how, from_end=False)(*operands)
        return
    call = cpu.sized(work, scatter_columns, types, how=how)
    if index.ndim == 2:
        cpu.columns(call, operands, work, 16)
    else:
        call(*as_columns(dim, operands, work))


# -- along one dimension: an index for every row -------------------------------------------------------------------


def take_rows(backend: Any, x: Any, index: Any, dim: int, from_end: bool = False) -> Any:
    """x with the entries along `dim` that the 1-D `index` names, or None if one is out of range."""
    size = x.shape[dim]
    shape = (*x.shape[:dim], index.size, *x.shape[dim + 1 :])
    if not x.size or not index.size:
        return empty_array(backend, shape, x.dtype) if size or not index.size else None
    if backend is not cpu:
        return device_places.read(backend, x, device_places.rows(x, dim, as_index(index), from_end))
    index, out = as_index(index), empty(shape, x.dtype)
    source, made = bits(x), bits(out)
    code = BITS[x.dtype.itemsize][0]
    rows = dim < x.ndim - 1
    kind, types = gather_rows if rows else gather_elements, (code, CODE[index.dtype], code, "b1")
    options = {"far": out.nbytes >= pool.settings[2]} if rows else {}
    if rows:
        source, made = as_columns(dim, (source, made))
    lead, cuts = source.shape[: -2 if rows else -1], (None, _FIRST, _FIRST)
    wrong = _meets_wrong(out.size, kind, types, (source, index, made), cuts, lead, from_end=from_end, **options)
    return None if wrong else out


def joined(whole: Any, n: int, index: Any) -> Any:
    """Vectors of indices over several dimensions, the last of n elements, as one over their product; they have been checked."""
    whole, index, out = as_index(whole), as_index(index), empty(whole.size, np.dtype(np.int64))
    cpu.small(join_indices, (CODE[whole.dtype], "i64", CODE[index.dtype], "i64"))(whole, np.asarray(n), index, out)
    return out


def take_pairs(x: Any, rows: Any, columns: Any) -> Any:
    """The elements of a matrix at (row, column), two vectors of int64, or None if one is out of range."""
    out, code = empty(rows.size, x.dtype), BITS[x.dtype.itemsize][0]
    given, types = (bits(x), rows, columns, bits(out)), (code, "i64", "i64", code, "b1")
    return None if _meets_wrong(rows.size, gather_pairs, types, given, (None, *(_FIRST,) * 3), ()) else out


def update_rows(backend: Any, x: Any, dim: int, index: Any, values: Any, how: str, from_end: bool = False) -> None:
    """Combines the entries of values along `dim` into those of x that the 1-D `index` names, which was checked, but on a GPU."""
    if index.size == 0 or x.size == 0:
        return
    index = as_index(index)
    if backend is not cpu:
        device_places.write(backend, x, device_places.rows(x, dim, index, from_end), values, how)
        return
    if values.ndim == 0:
        values = np.broadcast_to(values, (*x.shape[:dim], index.size, *x.shape[dim + 1 :]))
    if how == "set":
        code, x, values = BITS[x.dtype.itemsize][0], bits(x), bits(values)
    else:
        code = _code(x)
    rows = dim < x.ndim - 1
    if rows:
        values, x = as_columns(dim, (values, x))
    kind, types = scatter_rows if rows else scatter_elements, (CODE[index.dtype], code, code)
    many = threads.pay(values.size)
    call = cpu.form(many, kind, types, how=how, from_end=from_end)
    if many and rows and x.ndim == 2:
        parts = threads.ranges(x.shape[1], 16)
        cpu.side_by_side(call, [[index, values[:, a:b], x[:, a:b]] for a, b in parts])
    else:
        call(index, values, x)


def positions(x: Any) -> Sequence[Any]:
    """The indices in each dimension of the elements that are not zero."""
    if isinstance(x, np.ndarray):
        return x.nonzero()
    found = device_marks.positions(backend_of(CUDA), x)
    return [found[d] for d in range(x.ndim)]


def select(backend: Any, x: Any, mask: Any) -> Any:
    """The elements of x where a mask of its shape holds, in order."""
    if backend is not cpu:
        return device_marks.select(backend, x, mask)
    flat, marks = bits(x).reshape(-1), mask.reshape(-1)
    code = BITS[x.dtype.itemsize][0]
    many = threads.pay(flat.size)
    call = cpu.form(many, compress, (code, "b1", code))
    if not many:
        out = empty(np.count_nonzero(marks), x.dtype)
        call(flat, marks, bits(out))
        return out
    parts, ends = _marked_parts(marks)
    out = empty(ends[-1], x.dtype)
    made = bits(out)
    cpu.side_by_side(
        call, [[flat[a:b], marks[a:b], made[low:high]] for (a, b), (low, high) in zip(parts, pairwise(ends))]
    )
    return out


def _marked_parts(marks: Any) -> tuple[list[tuple[int, int]], list[int]]:
    """Parts of a long mask for the threads, and where what each of them marks begins and ends among all that is marked."""
    parts = threads.ranges(marks.size)
    return parts, list(accumulate([int(np.count_nonzero(marks[a:b])) for a, b in parts], initial=0))


def add_selected(x: Any, mask: Any, values: Any) -> None:
    """Adds values, in order, to the elements of a dense x where a mask of its shape holds: as many as there are."""
    flat, marks, given = x.reshape(-1), mask.reshape(-1), values.reshape(-1)
    code = _code(x)
    many = threads.pay(flat.size)
    call = cpu.form(many, add_where, ("b1", code, code))
    if not many:
        call(marks, given, flat)
        return
    parts, ends = _marked_parts(marks)
    cpu.side_by_side(
        call, [[marks[a:b], given[low:high], flat[a:b]] for (a, b), (low, high) in zip(parts, pairwise(ends))]
    )
