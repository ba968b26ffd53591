"""Array functions behind indexing: reading and writing elements and rows by index, on raw arrays.

Indices are checked before anything is written; the kernels look again at every index they use, so that no call
can leave an array whatever another thread does to its indices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._backend import threads
from .._backend.cpu import PARALLEL, cpu
from .._core.allocation import empty
from .._core.dtypes import BY_NUMPY
from .._kernel.lang import independent, inline, kernel
from .._kernel.value import SIZE

# Elements are moved as integers of their width: no conversion touches a NaN.
_BITS = {1: ("u8", np.dtype("u1")), 2: ("u16", np.dtype("u2")), 4: ("u32", np.dtype("u4")),
         8: ("u64", np.dtype("u8")), 16: ("c128", np.dtype("c16"))}  # fmt: skip
_CODE = {np.dtype("i4"): "i32", np.dtype("i8"): "i64"}


# -- kernels -----------------------------------------------------------------------------------------------------


def _dense(a: Any) -> Any:
    """Whether elements lie side by side. Loops for this common case are apart: there, addresses cost nothing."""
    return a.strides[0] == SIZE[a.type]


@inline
def _any_outside(m: Any, index: Any, first: Any, end: Any) -> Any:
    wrong = m.value(0, "i64")
    for i in range(index.n):
        j = m.cast(index[i], "i64")
        wrong = wrong | m.cast((j < first) | (j >= end), "i64")
    return wrong != 0


@kernel("(n),(),()->()")
def out_of_range(m: Any, index: Any, low: Any, high: Any, found: Any) -> None:
    """Whether an index is outside [low, high)."""
    if _dense(index):
        found[()] = _any_outside(m, index, low[()], high[()])
    else:
        found[()] = _any_outside(m, index, low[()], high[()])


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
    if _dense(x) & _dense(index) & _dense(out):
        found[()] = _gather_row(m, x, index, out, from_end)
    else:
        found[()] = _gather_row(m, x, index, out, from_end)


@kernel("(n,w),(k)->(k,w),()")
def gather_rows(m: Any, x: Any, index: Any, out: Any, found: Any, from_end: Any) -> None:
    """The row out[i] is x[index[i]], as `gather_elements`."""
    wrong = m.value(False, "b1")
    for i in range(index.n):
        j = _place(m, index[i], x.shape[0], from_end)
        if j >= m.cast(x.shape[0], "u64"):
            wrong = True
            break
        for c in independent(x.n):
            out[i, c] = x[j, c]
    found[()] = wrong


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
def _scatter_row(m: Any, index: Any, values: Any, x: Any, how: Any) -> None:
    n = m.cast(x.n, "u64")
    for i in range(index.n):
        j = _place(m, index[i], 0)
        if j < n:
            x[j] = _combined(m, how, x[j], values[i])


@kernel("(k),(k)->(n)")
def scatter_elements(m: Any, index: Any, values: Any, x: Any, how: Any) -> None:
    """x[index[i]] is combined with values[i], in order."""
    if _dense(index) & _dense(values) & _dense(x):
        _scatter_row(m, index, values, x, how)
    else:
        _scatter_row(m, index, values, x, how)


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
def scatter_rows(m: Any, index: Any, values: Any, x: Any, how: Any) -> None:
    """The row x[index[i]] is combined with the row values[i], in order."""
    n = m.cast(x.shape[0], "u64")
    for i in range(index.n):
        j = _place(m, index[i], 0)
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
    return array.view(_BITS[array.dtype.itemsize][1])


def _code(array: Any) -> str:
    return BY_NUMPY[array.dtype].code


def as_index(index: Any) -> Any:
    """Indices in a type that the kernels take."""
    return index if index.dtype in _CODE else index.astype(np.int64)


_ROW = 4096  # indices that are looked at together


def apart(array: Any, target: Any) -> Any:
    """`array`, copied if its memory may be that of `target`, which is about to be written."""
    return array.copy() if np.may_share_memory(array, target) else array


def first_outside(backend: Any, index: Any, low: int, high: int) -> int | None:
    """The first index outside [low, high), or None."""
    if index.size == 0:
        return None
    if backend is cpu:
        flat = as_index(index)
        if flat.ndim > 1:
            flat = flat.reshape(-1) if flat.flags.c_contiguous else flat
        call = cpu.kernel(out_of_range, (_CODE[flat.dtype], "i64", "i64", "b1"))
        if flat.ndim != 1 or flat.size < PARALLEL:
            found: Any = np.any(call(flat if flat.ndim else flat.reshape(1), low, high))
        else:
            rest = flat.size % _ROW
            rows = flat[: flat.size - rest].reshape(-1, _ROW)
            answers = np.empty(len(rows), np.bool_)
            cpu.rows(call, [rows, np.asarray(low), np.asarray(high)], [answers], flat.size)
            found = answers.any() or (rest and call(flat[flat.size - rest :], low, high))
        if not found:
            return None
    wrong = (index < low) | (index >= high)
    if backend is not cpu and not bool(wrong.any()):
        return None
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


# -- along one dimension: an index for every element ---------------------------------------------------------------


def _narrowed(x: Any, shape: Sequence[int], dim: int) -> Any:
    """x cut to the extents of the index, except along `dim`."""
    if all(n == m or i == dim for i, (n, m) in enumerate(zip(x.shape, shape))):
        return x
    return x[tuple(slice(None) if i == dim else slice(n) for i, n in enumerate(shape))]


def _cores(dim: int, arrays: Sequence[Any]) -> tuple[list[Any], bool]:
    """Arrays with `dim` moved to where the kernels want it, and whether that is beside a column dimension."""
    ndim = arrays[0].ndim
    if dim == ndim - 1:
        return list(arrays), False
    return [np.moveaxis(a, dim, -2) for a in arrays], True


def gather(backend: Any, x: Any, dim: int, index: Any) -> tuple[Any, int | None]:
    """out[…, i, …] = x[…, index[…, i, …], …], and the first index out of range, if any."""
    xp = backend.xp
    if x.ndim == 0 or index.ndim == 0:
        out, bad = gather(backend, x.reshape(1), 0, index.reshape(-1))
        return out.reshape(index.shape), bad
    x = _narrowed(x, index.shape, dim)
    size = x.shape[dim]
    if index.size == 0:
        return xp.empty(index.shape, x.dtype), None
    if size == 0:
        return None, int(index.reshape(-1)[0])
    if backend is not cpu:
        bad = first_outside(backend, index, 0, size)
        return (None, bad) if bad is not None else (xp.take_along_axis(x, index, dim), None)
    index = as_index(index)
    out = empty(index.shape, x.dtype)
    code = _BITS[x.dtype.itemsize][0]
    (source, positions, made), columns = _cores(dim, (bits(x), index, bits(out)))
    found = np.empty(positions.shape[: -2 if columns else -1], np.bool_)
    types = (code, _CODE[index.dtype], code, "b1")
    call = cpu.kernel(gather_columns, types) if columns else cpu.kernel(gather_elements, types, from_end=False)
    if columns and not found.ndim and index.size >= PARALLEL:  # split the columns
        split(lambda s: call(source[:, s], positions[:, s], made[:, s]), made.shape[1], found=found)
    elif found.ndim:
        cpu.rows(call, [source, positions], [made, found], index.size)
    else:
        found = np.asarray(call(source, positions, made)[1])
    return out, first_outside(backend, index, 0, size) if found.any() else None


def split(call: Callable[[slice], Any], count: int, least: int = 16, found: Any = None) -> None:
    """Runs a kernel over ranges of rows or columns side by side; its second result is gathered in `found`."""
    parts = threads.ranges(count, least)
    answers = [False] * len(parts)

    def job(i: int) -> Callable[[], None]:
        def work() -> None:
            result = call(slice(*parts[i]))
            answers[i] = found is not None and bool(result[1])

        return work

    threads.run([job(i) for i in range(len(parts))])
    if found is not None:
        found[...] = any(answers)


def scatter(backend: Any, x: Any, dim: int, index: Any, values: Any, how: str) -> None:
    """Combines values into x[…, index[…, i, …], …]. The indices must have been checked."""
    if index.size == 0:
        return
    if x.ndim == 0 or index.ndim == 0:
        flat = values.reshape(-1) if values.ndim == 0 else values.reshape(-1)[: index.size]
        scatter(backend, x.reshape(1), 0, index.reshape(-1), flat, how)
        return
    target = _narrowed(x, index.shape, dim)
    if values.ndim == 0:
        values = backend.xp.broadcast_to(values, index.shape)
    elif values.shape != index.shape:
        values = values[tuple(slice(n) for n in index.shape)]
    if backend is not cpu:
        update_at(backend, target, grid_key(backend, index, dim), values, how)
        return
    index, values = apart(as_index(index), x), apart(values, x)
    if how == "set":
        code, target, values = _BITS[x.dtype.itemsize][0], bits(target), bits(values)
    else:
        code = _code(x)
    (positions, given, written), columns = _cores(dim, (index, values, target))
    call = cpu.kernel(scatter_columns if columns else scatter_elements, (_CODE[index.dtype], code, code), how=how)
    if columns and index.size >= PARALLEL and positions.ndim == 2:
        split(lambda s: call(positions[:, s], given[:, s], written[:, s]), given.shape[1])
    elif positions.ndim > (2 if columns else 1):
        cpu.rows(call, [positions, given], [written], index.size)
    else:
        call(positions, given, written)


# -- along one dimension: an index for every row -------------------------------------------------------------------


def take_rows(backend: Any, x: Any, index: Any, dim: int, from_end: bool = False) -> Any:
    """x with the entries along `dim` that the 1-D `index` names, or None if one is out of range."""
    shape = (*x.shape[:dim], index.size, *x.shape[dim + 1 :])
    size = x.shape[dim]
    if math.prod(shape) == 0:
        return backend.xp.empty(shape, x.dtype) if size or not index.size else None
    if backend is not cpu or math.prod(shape) < PARALLEL:
        if first_outside(backend, index, -size if from_end else 0, size) is not None:
            return None
        return x.take(index, dim) if backend is not cpu else x.take(index, dim, None, "wrap")
    index, out = as_index(index), empty(shape, x.dtype)
    source, made = bits(x), bits(out)
    if dim == 0 and x.ndim > 1 and x.flags.c_contiguous:
        source, made = source.reshape(size, -1), made.reshape(index.size, -1)
    code = _BITS[x.dtype.itemsize][0]
    rows = dim < x.ndim - 1
    call = cpu.kernel(
        gather_rows if rows else gather_elements, (code, _CODE[index.dtype], code, "b1"), from_end=from_end
    )
    if rows:
        source, made = np.moveaxis(source, dim, -2), np.moveaxis(made, dim, -2)
    lead = source.shape[: -2 if rows else -1]
    found = np.empty(lead, np.bool_)
    if lead:
        cpu.rows(call, [source, np.broadcast_to(index, (*lead, index.size))], [made, found], out.size)
    else:
        split(lambda s: call(source, index[s], made[s]), index.size, found=found)
    return None if found.any() else out


def update_rows(backend: Any, x: Any, dim: int, index: Any, values: Any, how: str) -> None:
    """Combines the entries of values along `dim` into those of x that the 1-D `index` names (checked, not negative)."""
    if index.size == 0 or x.size == 0:
        return
    if backend is not cpu:
        update_at(backend, x, (slice(None),) * dim + (index,), values, how)
        return
    index, values = apart(as_index(index), x), apart(values, x)
    if how == "set":
        code, x, values = _BITS[x.dtype.itemsize][0], bits(x), bits(values)
    else:
        code = _code(x)
    types = (_CODE[index.dtype], code, code)
    if dim == x.ndim - 1:  # rows of one element
        call = cpu.kernel(scatter_elements, types, how=how)
        if x.ndim > 1:
            cpu.rows(call, [np.broadcast_to(index, values.shape), values], [x], values.size)
        else:
            call(index, values, x)
        return
    call = cpu.kernel(scatter_rows, types, how=how)
    given, written = np.moveaxis(values, dim, -2), np.moveaxis(x, dim, -2)
    if values.size < PARALLEL:
        call(index, given, written)
    elif given.ndim == 2:
        split(lambda s: call(index, given[:, s], written[:, s]), written.shape[1])
    else:
        lead = np.broadcast_to(index, (*given.shape[:-2], index.size))
        cpu.rows(call, [lead, given], [written], values.size)


def select(backend: Any, x: Any, mask: Any) -> Any:
    """The elements of x where a mask of its shape holds, in order."""
    if backend is not cpu:
        return x[mask]
    flat, marks = bits(x).reshape(-1), mask.reshape(-1)
    code = _BITS[x.dtype.itemsize][0]
    call = cpu.kernel(compress, (code, "b1", code))
    if flat.size < PARALLEL:
        out = empty(np.count_nonzero(marks), x.dtype)
        call(flat, marks, bits(out))
        return out
    parts = threads.ranges(flat.size)
    ends = np.cumsum([0, *(np.count_nonzero(marks[a:b]) for a, b in parts)])
    out = empty(ends[-1], x.dtype)
    made = bits(out)

    def job(i: int) -> Callable[[], Any]:
        a, b = parts[i]
        return lambda: call(flat[a:b], marks[a:b], made[ends[i] : ends[i + 1]])

    threads.run([job(i) for i in range(len(parts))])
    return out
