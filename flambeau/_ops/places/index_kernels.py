"""Array functions behind indexing: reading and writing elements and rows by index, on raw arrays.

Indices are checked before anything is written; the kernels look again at every index they use, so that no call
can leave an array whatever another thread does to its indices.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ..._backend import threads
from ..._backend.cpu import cpu
from ..._backend.cuda_layout import Operand
from ..._core.allocation import empty
from ..._core.dtypes import BY_NUMPY
from ..._kernel.lang import independent, inline, kernel
from ..._kernel.native import pool
from ..._kernel.streaming import ask_for, ask_to_write, width

# Elements are moved as integers of their width: no conversion touches a NaN.
BITS = {1: ("u8", np.dtype("u1")), 2: ("u16", np.dtype("u2")), 4: ("u32", np.dtype("u4")),
         8: ("u64", np.dtype("u8")), 16: ("c128", np.dtype("c16"))}  # fmt: skip
_CODE = {np.dtype("i4"): "i32", np.dtype("i8"): "i64"}


# -- kernels -----------------------------------------------------------------------------------------------------


@inline
def _any_outside(m: Any, index: Any, first: Any, end: Any) -> Any:
    wrong = m.value(0, "i64")
    for i in range(index.n):
        j = m.cast(index[i], "i64")
        wrong = wrong | m.cast((j < first) | (j >= end), "i64")
    return wrong != 0


@kernel("(n),(b)->()")
def out_of_range(m: Any, index: Any, bounds: Any, found: Any) -> None:
    """Whether an index is outside [bounds[0], bounds[1])."""
    found[()] = _any_outside(m, index, bounds[0], bounds[1])


def _place(m: Any, index: Any, n: Any, from_end: Any = False) -> Any:
    """An index as an unsigned number, so that negative ones are large; they may count from the end."""
    j = m.cast(index, "i64")
    return m.cast(m.where(j < 0, j + n, j) if from_end else j, "u64")


@inline
def _gather_row(m: Any, x: Any, index: Any, out: Any, from_end: Any) -> Any:
    wrong = m.value(False, "b1")
    for i in range(index.n):
        j = _place(m, index[i], x.n, from_end)
        if j >= m.cast(x.n, "u64"):
            wrong = True
            break
        out[i] = x[j]
    return wrong


@kernel("(n),(k)->(k),()")
def gather_elements(m: Any, x: Any, index: Any, out: Any, found: Any, from_end: Any) -> None:
    """out[i] = x[index[i]]; ends at an index out of range and tells of it."""
    found[()] = _gather_row(m, x, index, out, from_end)


@kernel("(n),()->(),()")
def gather_one(m: Any, x: Any, index: Any, out: Any, wrong: Any, from_end: Any) -> None:
    """The same for one index."""
    j = _place(m, index[()], x.n, from_end)
    if j < m.cast(x.n, "u64"):
        out[()] = x[j]
    else:
        wrong[()] = m.value(1, "i64")


@kernel("(),()->(n)")
def put_one(m: Any, index: Any, value: Any, x: Any, from_end: Any) -> None:
    """x[index] = value, unless that is out of range."""
    j = _place(m, index[()], x.n, from_end)
    if j < m.cast(x.n, "u64"):
        x[j] = value[()]


@kernel("(n),()->()")
def note_outside(m: Any, x: Any, index: Any, wrong: Any, from_end: Any) -> None:
    """Tells of an index out of range."""
    if _place(m, index[()], x.n, from_end) >= m.cast(x.n, "u64"):
        wrong[()] = m.value(1, "i64")


@kernel("(h,w),(k),(k)->(k),()")
def gather_pairs(m: Any, x: Any, row: Any, column: Any, out: Any, found: Any) -> None:
    """out[i] = x[row[i], column[i]], counted from the end where negative; ends at an index out of range and tells of it."""
    wrong = m.value(False, "b1")
    for i in range(out.n):
        j = _place(m, row[i], x.shape[0], True)
        c = _place(m, column[i], x.n, True)
        if (j >= m.cast(x.shape[0], "u64")) | (c >= m.cast(x.n, "u64")):
            wrong = True
            break
        out[i] = x[j, c]
    found[()] = wrong


@kernel("(n,w),(k)->(k,w),()")
def gather_rows(m: Any, x: Any, index: Any, out: Any, found: Any, from_end: Any, far: Any) -> None:
    """The row out[i] is x[index[i]], as `gather_elements`; a `far` result is asked for early, and so are rows of x."""
    wrong = m.value(False, "b1")
    group = _lines(x, out) if far else 0
    for i in range(index.n):
        j = _place(m, index[i], x.shape[0], from_end)
        if j >= m.cast(x.shape[0], "u64"):
            wrong = True
            break
        whole = m.value(0, "i64")
        if group:
            after = _place(m, index[m.minimum(i + 1, index.n - 1)], x.shape[0], from_end)
            whole = x.n & -group
            for start in range(0, whole, group):
                ask_for(x, (after, start), group)
                ask_to_write(out, (i, start), group)
                for c in independent(group):
                    out[i, start + c] = x[j, start + c]
        for c in independent(whole, x.n):
            out[i, c] = x[j, c]
    found[()] = wrong


def _lines(x: Any, out: Any) -> int:
    """In a kernel: elements that are asked for together, none of rows whose elements lie apart."""
    return width(x.type, 4) if x.dense and out.dense else 0


@kernel("(n,w),(k,w)->(k,w),()")
def gather_columns(m: Any, x: Any, index: Any, out: Any, found: Any) -> None:
    """out[i, c] = x[index[i, c], c], as `gather_elements`."""
    wrong = m.value(False, "b1")
    for i in range(index.shape[0]):
        for c in range(index.n):
            j = _place(m, index[i, c], 0)
            if j >= m.cast(x.shape[0], "u64"):
                wrong = True
                break
            out[i, c] = x[j, c]
    found[()] = wrong


def _combined(m: Any, how: Any, old: Any, new: Any) -> Any:
    """One element after another was written to it."""
    if how == "set":
        return new
    if how == "add":
        return old | new if old.type == "b1" else old + new
    if how == "multiply":
        return old & new if old.type == "b1" else old * new
    return m.maximum(old, new) if how == "maximum" else m.minimum(old, new)


@inline
def _scatter_row(m: Any, index: Any, values: Any, x: Any, how: Any, from_end: Any) -> None:
    n = m.cast(x.n, "u64")
    for i in range(index.n):
        j = _place(m, index[i], x.n, from_end)
        if j < n:
            x[j] = _combined(m, how, x[j], values[i])


@kernel("(k),(k)->(n)")
def scatter_elements(m: Any, index: Any, values: Any, x: Any, how: Any, from_end: Any) -> None:
    """x[index[i]] is combined with values[i], in order."""
    _scatter_row(m, index, values, x, how, from_end)


@kernel("(k),(k)->(n),()")
def scatter_checked(m: Any, index: Any, values: Any, x: Any, found: Any, how: Any) -> None:
    """`scatter_elements` of dense indices, unless one of them is out of range."""
    wrong = _any_outside(m, index, m.value(0, "i64"), x.n)
    found[()] = wrong
    if ~wrong:
        _scatter_row(m, index, values, x, how, False)


@kernel("(k,w),(k,w)->(n,w)")
def scatter_columns(m: Any, index: Any, values: Any, x: Any, how: Any) -> None:
    """x[index[i, c], c] is combined with values[i, c], in order."""
    n = m.cast(x.shape[0], "u64")
    for i in range(index.shape[0]):
        for c in range(index.n):
            j = _place(m, index[i, c], 0)
            if j < n:
                x[j, c] = _combined(m, how, x[j, c], values[i, c])


@kernel("(k),(k,w)->(n,w)")
def scatter_rows(m: Any, index: Any, values: Any, x: Any, how: Any, from_end: Any) -> None:
    """The row x[index[i]] is combined with the row values[i], in order."""
    n = m.cast(x.shape[0], "u64")
    for i in range(index.n):
        j = _place(m, index[i], x.shape[0], from_end)
        if j < n:
            for c in independent(x.n):
                x[j, c] = _combined(m, how, x[j, c], values[i, c])


@kernel("(n),(n)->(k)")
def compress(m: Any, x: Any, mask: Any, out: Any) -> None:
    """The elements of x where the mask holds; their number must be k."""
    i = m.value(0, "i64")
    j = m.value(0, "i64")
    while (j < out.n) & (i < x.n):
        out[j] = x[i]
        j += m.cast(mask[i], "i64")
        i += 1


@kernel("(n),(k)->(n)")
def add_where(m: Any, mask: Any, values: Any, out: Any) -> None:
    """Adds the values, in order, to the elements of out where the mask holds; that are at least k."""
    j = m.value(0, "i64")
    i = m.value(0, "i64")
    while (j < values.n) & (i < out.n):
        if mask[i]:
            out[i] = out[i] + values[j]
            j += 1
        i += 1


@kernel("(h,w)->(k,d)")
def nonzero_pairs(m: Any, x: Any, out: Any) -> None:
    """Row and column of the nonzero elements of a matrix; their number must be k."""
    j = m.value(0, "i64")
    for row in range(x.shape[0]):
        for column in range(x.n):
            if j < out.shape[0]:
                out[j, 0] = row
                out[j, 1] = column
                j += m.cast(x[row, column], "i64")


# -- helpers -----------------------------------------------------------------------------------------------------


def bits(array: Any) -> Any:
    """The same memory as integers of the elements' width."""
    return array.view(BITS[array.dtype.itemsize][1])


def _code(array: Any) -> str:
    return BY_NUMPY[array.dtype].code


def as_index(index: Any) -> Any:
    """Indices in a type that the kernels take."""
    return index if index.dtype in _CODE else index.astype(np.int64)


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
    for part, word in zip(parts, found):
        own = [a if cut is None else a[(*cut, slice(*part))] for a, cut in zip(operands, cuts)]
        jobs.append([*own, word.reshape(())])
    cpu.side_by_side(call, jobs)
    return _any(found)


def first_outside(backend: Any, index: Any, low: int, high: int) -> int | None:
    """The first index outside [low, high), or None, where `low` is 0 or -high. A GPU tells of it later, to who waits for it."""
    if index.size == 0:
        return None
    if backend is not cpu:
        if high <= 0:  # the libraries of GPUs would take the remainder by it
            return int(index.reshape(-1)[0])
        index = as_index(index)
        kind = backend.kernel(note_outside, (_CODE[index.dtype],) * 2 + ("i64",), from_end=low < 0)
        kind(backend.errors.row(index, high), index, backend.errors.place("index", index.shape))
        return None
    if backend is cpu:
        flat = as_index(index)
        if flat.ndim != 1 and (not flat.ndim or flat.flags.c_contiguous):
            flat = flat.reshape(-1)
        given, types = (flat, _bounds(low, high)), (_CODE[flat.dtype], "i64", "b1")
        if not _meets_wrong(flat.size, out_of_range, types, given, (_FIRST, None), flat.shape[:-1]):
            return None
    wrong = (index < low) | (index >= high)
    return int(index[wrong].reshape(-1)[0])


def grid_key(backend: Any, index: Any, dim: int) -> tuple[Any, ...]:
    """A fancy index that picks along `dim` by `index` and every other dimension by position."""
    xp, ndim = backend.xp, index.ndim
    key = [xp.arange(n).reshape((1,) * i + (n,) + (1,) * (ndim - 1 - i)) for i, n in enumerate(index.shape)]
    key[dim] = index
    return tuple(key)


def update_at(backend: Any, x: Any, key: Any, values: Any, how: str) -> None:
    """x[key] combined with values, duplicates included, with a backend's own array functions."""
    xp = backend.xp
    if how == "set":
        x[key] = values
        return
    if xp is np:
        getattr(np, how).at(x, key, values)
    elif how == "multiply":  # a GPU has no such operation on memory: done on the host
        host = backend.asnumpy(x)
        positions = tuple(k if isinstance(k, slice) else backend.asnumpy(k) for k in key)
        np.multiply.at(host, positions, backend.asnumpy(values))  # type: ignore[arg-type]
        x[...] = backend.from_numpy(host)
    elif x.dtype.kind == "c":
        getattr(xp, how).at(x.real, key, values.real)
        getattr(xp, how).at(x.imag, key, values.imag)
    elif x.dtype.itemsize >= 4:
        getattr(xp, how).at(x, key, values)
    else:
        wide = x.astype("int32" if x.dtype.kind in "biu" else "float32")
        getattr(xp, how).at(wide, key, values.astype(wide.dtype))
        x[...] = wide.astype(x.dtype)


def _put_along(backend: Any, x: Any, dim: int, index: Any, over: Any, values: Any, from_end: bool = False) -> bool:
    """x[…, index, …] = values on a GPU; `over` are the shape and the strides of the index over all values. False if it cannot."""
    if x.dtype.itemsize not in BITS or isinstance(values, np.ndarray) or values.shape not in ((), over[0]):
        return False
    code, (shape, steps) = BITS[x.dtype.itemsize][0], over
    kept = (*x.strides[:dim], 0, *x.strides[dim + 1 :], x.strides[dim])
    put = backend.kernel(put_one, (_CODE[index.dtype], code, code), from_end=from_end)
    to = x, Operand((*shape, x.shape[dim]), kept, x.dtype)
    source = values, Operand(shape, values.strides or (0,) * len(shape), values.dtype)
    put((index, Operand(shape, steps, index.dtype)), source, to)
    return True


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
    xp = backend.xp
    if x.ndim == 0 or index.ndim == 0:
        out, bad = gather(backend, x.reshape(-1), 0, index.reshape(-1))
        return out.reshape(index.shape), bad
    if index.size == 0:
        return xp.empty(index.shape, x.dtype), None
    x = _narrowed(x, index.shape, dim)
    size = x.shape[dim]
    if size == 0:
        return None, int(index.reshape(-1)[0])
    if backend is not cpu:
        bad = first_outside(backend, index, 0, size)
        return (None, bad) if bad is not None else (xp.take_along_axis(x, index, dim), None)
    index = as_index(index)
    out = empty(index.shape, x.dtype)
    code, wide = BITS[x.dtype.itemsize]
    operands: Sequence[Any] = (x.view(wide), index, out.view(wide))
    work, types = index.size, (code, _CODE[index.dtype], code, "b1")
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
    few = backend is not cpu or not threads.pay(index.size)
    if few or not dim == index.ndim - 1 > 0 or values.shape != index.shape or not index.flags.c_contiguous:
        bad = first_outside(backend, index, 0, x.shape[dim] if x.ndim else 1)
        if bad is None:
            scatter(backend, x, dim, index, values, how)
        return bad
    index, target = as_index(index), _narrowed(x, index.shape, dim)
    code, wide = BITS[x.dtype.itemsize] if how == "set" else (BY_NUMPY[x.dtype].code, x.dtype)
    found = empty(index.shape[:-1], _BOOL)
    call = cpu.large(scatter_checked, (_CODE[index.dtype], code, code, "b1"), how=how)
    call(index, values.view(wide), target.view(wide), found)
    return first_outside(backend, index, 0, target.shape[dim]) if found.any() else None


def scatter(backend: Any, x: Any, dim: int, index: Any, values: Any, how: str) -> None:
    """Combines values into x[…, index[…, i, …], …]. The indices must have been checked."""
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
    if (
        backend is not cpu
        and how == "set"
        and _put_along(backend, target, dim, index, (index.shape, index.strides), values)
    ):
        return
    if values.ndim == 0:
        values = backend.xp.broadcast_to(values, index.shape)
    if backend is not cpu:
        update_at(backend, target, grid_key(backend, index, dim), values, how)
        return
    code = BY_NUMPY[x.dtype].code
    if how == "set":
        code, wide = BITS[x.dtype.itemsize]
        target, values = target.view(wide), values.view(wide)
    operands: Sequence[Any] = (index, values, target)
    work, types = index.size, (_CODE[index.dtype], code, code)
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
        return backend.xp.empty(shape, x.dtype) if size or not index.size else None
    if backend is not cpu:
        index = as_index(index)
        code, out = BITS[x.dtype.itemsize][0], backend.empty(shape, x.dtype)
        order = [*range(dim), *range(dim + 1, x.ndim), dim]
        source = bits(x).transpose(order)[(slice(None),) * dim + (None,)]
        places = index.reshape(-1, *[1] * (x.ndim - 1 - dim))
        kind = backend.kernel(gather_one, (code, _CODE[index.dtype], code, "i64"), from_end=from_end)
        kind(source, places, bits(out), backend.errors.place("index", shape))
        return out
    index, out = as_index(index), empty(shape, x.dtype)
    source, made = bits(x), bits(out)
    code = BITS[x.dtype.itemsize][0]
    rows = dim < x.ndim - 1
    kind, types = gather_rows if rows else gather_elements, (code, _CODE[index.dtype], code, "b1")
    options = {"far": out.nbytes >= pool.settings[2]} if rows else {}
    if rows:
        source, made = as_columns(dim, (source, made))
    lead, cuts = source.shape[: -2 if rows else -1], (None, _FIRST, _FIRST)
    wrong = _meets_wrong(out.size, kind, types, (source, index, made), cuts, lead, from_end=from_end, **options)
    return None if wrong else out


def take_pairs(x: Any, rows: Any, columns: Any) -> Any:
    """The elements of a matrix at (row, column), two vectors of int64, or None if one is out of range."""
    out, code = empty(rows.size, x.dtype), BITS[x.dtype.itemsize][0]
    given, types = (bits(x), rows, columns, bits(out)), (code, "i64", "i64", code, "b1")
    return None if _meets_wrong(rows.size, gather_pairs, types, given, (None, *(_FIRST,) * 3), ()) else out


def update_rows(backend: Any, x: Any, dim: int, index: Any, values: Any, how: str, from_end: bool = False) -> None:
    """Combines the entries of values along `dim` into those of x that the 1-D `index` names, which was checked."""
    if index.size == 0 or x.size == 0:
        return
    if backend is not cpu:
        index, shape = as_index(index), (*x.shape[:dim], index.size, *x.shape[dim + 1 :])
        over = shape, (*[0] * dim, *index.strides, *[0] * (x.ndim - dim - 1))
        if how == "set" and _put_along(backend, x, dim, index, over, values, from_end):
            return
        if from_end:
            index = index + (index < 0) * x.shape[dim]
        update_at(backend, x, (slice(None),) * dim + (index,), values, how)
        return
    index = as_index(index)
    if how == "set":
        code, x, values = BITS[x.dtype.itemsize][0], bits(x), bits(values)
    else:
        code = _code(x)
    rows = dim < x.ndim - 1
    if rows:
        values, x = as_columns(dim, (values, x))
    kind, types = scatter_rows if rows else scatter_elements, (_CODE[index.dtype], code, code)
    many = threads.pay(values.size)
    call = cpu.form(many, kind, types, how=how, from_end=from_end)
    if many and rows and x.ndim == 2:
        parts = threads.ranges(x.shape[1], 16)
        cpu.side_by_side(call, [[index, values[:, a:b], x[:, a:b]] for a, b in parts])
    else:
        call(index, values, x)


def select(backend: Any, x: Any, mask: Any) -> Any:
    """The elements of x where a mask of its shape holds, in order."""
    if backend is not cpu:
        return x[mask]
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
