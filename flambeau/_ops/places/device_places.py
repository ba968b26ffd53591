"""Elements by index on a GPU: a thread for each that is read or written, and nobody waits to hear whether an index was wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._backend.cuda_layout import Operand
from ..._backend.cuda_watch import watching
from ..._core.config import config
from ..._core.dtypes import BY_NUMPY
from ..._kernel.cuda.places import THREADS, lanes, take_rows
from ..._kernel.places.elements import add_place, gather_one, note_outside, put_one, scatter_elements

# Elements are moved as integers of their width: no conversion touches a NaN.
BITS = {1: ("u8", np.dtype("u1")), 2: ("u16", np.dtype("u2")), 4: ("u32", np.dtype("u4")),
         8: ("u64", np.dtype("u8")), 16: ("c128", np.dtype("c16"))}  # fmt: skip
_WHOLE = 64  # bytes of a row that is moved as one
CODE = {np.dtype("i4"): "i32", np.dtype("i8"): "i64"}


class Places(NamedTuple):
    """Elements of an array x, one for each place in `shape`: along `rank` dimensions from `at` on an index says which."""

    shape: tuple[int, ...]
    at: int
    rank: int
    kept: tuple[int, ...]  # x's strides over the shape, 0 along what the index decides
    size: int  # what an index counts: so many elements,
    step: int  # so many bytes apart
    index: Any
    over: tuple[int, ...]  # the index's strides over the shape
    from_end: bool  # whether negative indices count from the end


def _without(strides: Sequence[int], dim: int) -> tuple[int, ...]:
    return (*strides[:dim], 0, *strides[dim + 1 :])


def along(x: Any, dim: int, index: Any) -> Places:
    """An index for every element, as in `gather`; in other dimensions x is at least as long as it."""
    kept = _without(x.strides, dim)
    return Places(index.shape, dim, 1, kept, x.shape[dim], x.strides[dim], index, index.strides, False)


def rows(x: Any, dim: int, index: Any, from_end: bool) -> Places:
    """A vector of indices for the entries along a dimension."""
    shape, over = (*x.shape[:dim], index.size, *x.shape[dim + 1 :]), [0] * x.ndim
    over[dim] = index.strides[0]
    return Places(shape, dim, 1, _without(x.strides, dim), x.shape[dim], x.strides[dim], index, tuple(over), from_end)


def fancy(backend: Any, x: Any, arrays: Sequence[Any], dims: Sequence[int], common: tuple[int, ...], at: int) -> Places:
    """Indices at some dimensions, broadcast to a `common` shape, which stands before dimension `at` of those that are left."""
    if len(arrays) == 1:
        index, size, step = arrays[0], x.shape[dims[0]], x.strides[dims[0]]
    else:
        index, step = _joined(backend, x, arrays, dims, common), x.itemsize
        size = 1 + sum([(x.shape[d] - 1) * x.strides[d] for d in dims]) // step
    rest = [d for d in range(x.ndim) if d not in dims]
    shape, strides = [x.shape[d] for d in rest], [x.strides[d] for d in rest]
    after = len(rest) - at
    return Places(
        (*shape[:at], *common, *shape[at:]), at, len(common), (*strides[:at], *[0] * len(common), *strides[at:]),
        size, step, index, (*[0] * at, *index.strides, *[0] * after), len(arrays) == 1,
    )  # fmt: skip


def _joined(backend: Any, x: Any, arrays: Sequence[Any], dims: Sequence[int], common: tuple[int, ...]) -> Any:
    """Indices at several dimensions as one, which counts elements of memory from the beginning of x."""
    total, known = _number(0, common), "place"
    for array, dim in zip(arrays, dims):
        made = backend.empty(common, np.dtype(np.int64))
        call = backend.kernel(add_place, (CODE[array.dtype], known, "place", "place", "i64", "i64"))
        sizes = [_number(n, common) for n in (x.shape[dim], x.strides[dim] // x.itemsize)]
        call(array, total, *sizes, made, backend.errors.place("index", common))
        total, known = made, "i64"
    return total


def _number(value: int, shape: tuple[int, ...]) -> tuple[int, Operand]:
    """A number as an operand of type "place"."""
    return value, Operand(shape, (0,) * len(shape), np.dtype(np.int64))


def note(backend: Any, index: Any, size: int, from_end: bool) -> None:
    """Tells who waits for the GPU of an index out of range."""
    call = backend.kernel(note_outside, (CODE[index.dtype],) * 2 + ("i64",), from_end=from_end)
    call(backend.errors.row(index, size), index, backend.errors.place("index", index.shape))


def read(backend: Any, x: Any, places: Places, order: Sequence[int] | None = None) -> Any:
    """A new array of the elements in some places, whose dimensions lie in some order in memory."""
    shape, code = places.shape, BITS[x.dtype.itemsize][0]
    if order is None and not places.at and places.index.flags.c_contiguous and _row(x, places) >= _WHOLE:
        return _whole_rows(backend, x, places)
    order = order or range(len(shape))
    out = backend.empty([shape[d] for d in order], x.dtype).transpose(sorted(range(len(shape)), key=order.__getitem__))
    call = backend.kernel(gather_one, (code, CODE[places.index.dtype], code, "i64"), from_end=places.from_end)
    source = x, Operand((*shape, places.size), (*places.kept, places.step), x.dtype)
    index = places.index, Operand(shape, places.over, places.index.dtype)
    call(source, index, out, backend.errors.place("index", shape))
    return out


def _row(x: Any, places: Places) -> int:
    """The bytes that each index names, if they lie side by side; else 0, also where each element has an index of its own."""
    if any(places.over[places.rank :]):
        return 0
    size = x.itemsize
    for n, stride in zip(reversed(places.shape[places.rank :]), reversed(places.kept[places.rank :])):
        if n != 1 and stride != size:
            return 0
        size *= n
    return size


def _whole_rows(backend: Any, x: Any, places: Places) -> Any:
    """What `read` gives where an index names many elements side by side."""
    out, index, size = backend.empty(places.shape, x.dtype), places.index, _row(x, places)
    across = lanes(size)
    text = take_rows("take_whole_rows", x.itemsize, CODE[index.dtype], across, places.from_end)
    numbers = index.size, places.size, size, places.step
    if out.size:
        grid = (-(-index.size // (THREADS // across)),)
        wrong, _ = backend.errors.place("index")
        backend.compiled("take_whole_rows", text)(grid, (THREADS,), (x, index, out, wrong, *numbers))
    return out


def write(backend: Any, x: Any, places: Places, values: Any, how: str) -> None:
    """Combines values, which broadcast, with the elements in some places."""
    in_order = config.deterministic or (
        how == "multiply" and x.dtype.itemsize == 16
    )  # of which memory does 8 bytes at once
    given: Any = values
    if isinstance(values, np.ndarray):
        if in_order or watching() is None:
            given = values = backend.number(values)
        else:
            given = backend.constant(values)[0]  # what is written down has it by its address
    if in_order:
        _write_in_order(backend, x, places, values, how)
        return
    shape, index = places.shape, (places.index, Operand(places.shape, places.over, places.index.dtype))
    call = backend.kernel(
        put_one, (CODE[places.index.dtype], *_codes(x, values, how), "i64"), how=how, from_end=places.from_end
    )
    to = x, Operand((*shape, places.size), (*places.kept, places.step), x.dtype)
    call(
        index,
        (given, Operand(shape, _broadcast(values, shape), values.dtype)),
        to,
        backend.errors.place("index", shape),
    )


def _codes(x: Any, values: Any, how: str) -> tuple[str, str]:
    """The types of values and of what they are written to: what is only set may be seen as integers."""
    if how == "set":
        return (BITS[x.dtype.itemsize][0],) * 2
    return BY_NUMPY[values.dtype].code, BY_NUMPY[x.dtype].code


def _broadcast(values: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides over a shape of an array that broadcasts to it; dimensions of one element before it do not count."""
    extra = max(values.ndim - len(shape), 0)
    own = [0 if n == 1 else s for n, s in zip(values.shape[extra:], values.strides[extra:])]
    return (*[0] * (len(shape) - len(own)), *own)


def _write_in_order(backend: Any, x: Any, places: Places, values: Any, how: str) -> None:
    """The same with a thread for all that an index names along its dimension, which goes from the first to the last."""
    if places.rank != 1:
        places, values = _flat(backend, places, values)
    note(backend, places.index, places.size, places.from_end)
    dim, shape = places.at, places.shape
    order = [*range(dim), *range(dim + 1, len(shape)), dim]
    lines = tuple([shape[d] for d in order])

    def turned(strides: Sequence[int]) -> tuple[int, ...]:
        return tuple([strides[d] for d in order])

    index = places.index, Operand(lines, turned(places.over), places.index.dtype)
    given = values, Operand(lines, turned(_broadcast(values, shape)), values.dtype)
    to = x, Operand((*lines[:-1], places.size), (*turned(places.kept)[:-1], places.step), x.dtype)
    types = (CODE[places.index.dtype], *_codes(x, values, how))
    backend.kernel(scatter_elements, types, how=how, from_end=places.from_end)(index, given, to)


def _flat(backend: Any, places: Places, values: Any) -> tuple[Places, Any]:
    """Places whose index is a vector, and values for them."""
    shape, at, rank = places.shape, places.at, places.rank
    length = math.prod(shape[at : at + rank])
    flat = (*shape[:at], length, *shape[at + rank :])
    index, full = backend.empty(shape[at : at + rank], places.index.dtype), backend.empty(shape, values.dtype)
    backend.copy(places.index, index)
    backend.copy(values.reshape(values.shape[max(values.ndim - len(shape), 0) :]), full)
    over, kept = [0] * len(flat), (*places.kept[:at], 0, *places.kept[at + rank :])
    over[at] = index.itemsize
    return places._replace(shape=flat, rank=1, kept=kept, index=index.reshape(-1), over=tuple(over)), full.reshape(flat)
