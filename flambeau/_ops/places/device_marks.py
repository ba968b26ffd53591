"""Elements that a mask marks, on a GPU: marks are counted, for whose number the CPU waits once, then visited (`_kernel/cuda/marks.py`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._backend.cuda_layout import merged
from ..._core.allocation import not_planned
from ..._core.dtypes import BY_NUMPY
from ..._kernel.cuda import places
from ..._kernel.cuda.marks import (
    SUMMING,
    THREADS,
    count_marks,
    distinct,
    few_distinct,
    lengths,
    move_marked,
    number_marked,
    sum_tiles,
    tile,
)
from . import device_places

_INT64 = np.dtype(np.int64)
_BLOCKS = 1024  # that find the lengths of runs


def _launched(
    backend: Any, name: str, text: str, blocks: int, arguments: tuple[Any, ...], threads: int = THREADS
) -> None:
    backend.compiled(name, text)((blocks,), (threads,), arguments)


def _tiles(flat: Any) -> tuple[str, int]:
    """The type of elements, and how many tiles they are."""
    code = BY_NUMPY[flat.dtype].code
    return code, -(-flat.size // tile(code))


def _counted(backend: Any, flat: Any, begins: bool, answer: int) -> Any:
    """How many marks there are before each tile of a vector; None for one tile. Their number goes to an address."""
    code, tiles = _tiles(flat)
    totals = backend.empty((tiles,), _INT64) if tiles > 1 else None
    text = count_marks("count_marks", code, begins)
    _launched(backend, "count_marks", text, tiles, (flat, answer if totals is None else totals, flat.size))
    if totals is not None:
        _launched(backend, "sum_tiles", sum_tiles("sum_tiles"), 1, (totals, answer, tiles), SUMMING)
    return totals


def _visited(backend: Any, kind: Any, flat: Any, totals: Any, *arguments: Any, **about: Any) -> None:
    """Does with each mark what a kind of kernel does."""
    (code, tiles), name = _tiles(flat), kind.__name__
    text = kind(name, code, totals is None, **about)
    _launched(backend, name, text, tiles, (flat, 0 if totals is None else totals, flat.size, *arguments))


def _vector(x: Any) -> Any:
    """Elements one after the other in memory."""
    flat = x.reshape(-1)
    return flat if flat.flags.c_contiguous else flat.copy()


def _marked(backend: Any, x: Any) -> tuple[Any, Any, int]:
    """Elements as a vector, how many of them before each tile are not zero, and how many are."""
    not_planned()
    flat, answer = _vector(x), backend.answers.place()
    (totals,) = backend.launches(("marks", answer), lambda flat: [_counted(backend, flat, False, answer)], [flat])
    return flat, totals, backend.answers.wait()


def select(backend: Any, x: Any, mask: Any, dim: int = 0) -> Any:
    """The elements, or parts, of x where a mask of its dimensions from `dim` on holds, in order."""
    lead, rest, size = x.shape[:dim], x.shape[dim + mask.ndim :], mask.size
    if not size:
        return backend.empty((*lead, 0, *rest), x.dtype)
    marks, totals, number = _marked(backend, mask)
    out = backend.empty((*lead, number, *rest), x.dtype)
    if not out.size:
        return out
    if not lead and not rest:
        _move(backend, marks, totals, x, out, False)
    elif not lead and x.flags.c_contiguous:
        _take_rows(backend, marks, totals, x, out)
    else:
        index, x = _numbered(backend, marks, totals, (size,), number)[0], x.reshape(*lead, size, *rest)
        out = device_places.read(backend, x, device_places.rows(x, dim, index, False))
    return out


def put(backend: Any, x: Any, mask: Any, source: Any) -> int:
    """Writes elements of a source, in order, where a mask of x's shape holds, if there are enough of them; how many that takes."""
    if not mask.size:
        return 0
    marks, totals, number = _marked(backend, mask)
    if 0 < number <= source.size:
        _move(backend, marks, totals, x, _vector(source), True)
    return number


def _move(backend: Any, marks: Any, totals: Any, x: Any, dense: Any, puts: bool) -> None:
    """Elements of x that are marked to a dense vector, or the other way."""

    def run(marks: Any, totals: Any, x: Any, dense: Any) -> list[Any]:
        sizes, (steps,) = merged(x.shape, [x.strides])
        about = {"size": x.itemsize, "outer": len(sizes), "puts": puts}
        _visited(backend, move_marked, marks, totals, x, dense, *sizes[1:], *steps, **about)
        return []

    backend.launches(("move", puts), run, [marks, totals, x], [dense.data.ptr])


def _take_rows(backend: Any, marks: Any, totals: Any, x: Any, out: Any) -> None:
    """Parts of x that are marked, and lie side by side."""
    size = x.nbytes // marks.size
    across = places.lanes(size)
    text = places.take_rows("take_whole_rows", x.itemsize, "i64", across, False)

    def run(marks: Any, totals: Any, x: Any, out: Any, number: Any) -> list[Any]:
        index = backend.empty((marks.size,), _INT64)
        _visited(backend, number_marked, marks, totals, index, number, rank=1)
        wrong, _ = backend.errors.place("index")
        blocks = -(-marks.size // (places.THREADS // across))
        arguments = x, index, out, wrong, number, marks.size, size, size
        _launched(backend, "take_whole_rows", text, blocks, arguments, places.THREADS)
        return []

    backend.launches("take", run, [marks, totals, x], [out.data.ptr, len(out)])


def positions(backend: Any, x: Any) -> Any:
    """Where elements are not zero: the index in each dimension as a row of a matrix."""
    if not x.size:
        return backend.empty((x.ndim, 0), _INT64)
    if _tiles(x)[1] == 1:
        return _few_positions(backend, x, x.shape)
    marks, totals, number = _marked(backend, x)
    return _numbered(backend, marks, totals, x.shape, number)


def _few_positions(backend: Any, x: Any, shape: tuple[int, ...]) -> Any:
    """The indices, in each dimension of a shape, of marks that are one tile: one launch, into memory for as many as there are elements."""
    not_planned()

    def find(flat: Any, number: Any) -> list[Any]:
        out = backend.empty((max(len(shape), 1) * flat.size,), _INT64)
        _visited(backend, number_marked, flat, None, out, number, *shape[1:], rank=len(shape), counts=True)
        return [out]

    (out,) = backend.launches(("few positions", shape), find, [_vector(x)], [backend.answers.place()])
    return out.__class__((len(shape), backend.answers.wait()), _INT64, out.data)


def _numbered(backend: Any, marks: Any, totals: Any, shape: tuple[int, ...], number: int) -> Any:
    """The indices, in each dimension of a shape, of what is marked."""
    out = backend.empty((len(shape), number), _INT64)

    def run(marks: Any, totals: Any, out: Any, number: Any) -> list[Any]:
        _visited(backend, number_marked, marks, totals, out, number, *shape[1:], rank=len(shape))
        return []

    if out.size:
        backend.launches(("positions", shape), run, [marks, totals], [out.data.ptr, number])
    return out


def runs(backend: Any, x: Any, sort: Any, wants_inverse: bool) -> tuple[Any, Any, Any]:
    """The distinct elements of a vector in order, which of them each element is (if that is wanted), and how often they occur.
    `sort` gives sorted elements and the places where they were."""
    not_planned()
    answer = backend.answers.place()
    if _tiles(x)[1] == 1:
        return _few_runs(backend, x, sort, wants_inverse, answer)

    def begin(x: Any) -> list[Any]:
        values, order = sort(x)
        return [values, order, _counted(backend, values, True, answer)]

    values, order, totals = backend.launches(("distinct", answer), begin, [x])
    number = backend.answers.wait()
    first, counts = backend.empty((number,), x.dtype), backend.empty((number,), _INT64)
    inverse = backend.empty((x.size if wants_inverse else 0,), _INT64)

    def end(values: Any, order: Any, totals: Any, first: Any, counts: Any, inverse: Any, number: Any) -> list[Any]:
        starts = backend.empty((values.size,), _INT64)
        _visited(backend, distinct, values, totals, first, starts, order, inverse, inverse=wants_inverse)
        blocks = min(-(-values.size // THREADS), _BLOCKS)
        _launched(backend, "lengths", lengths("lengths"), blocks, (starts, counts, number, values.size))
        return []

    made = [first.data.ptr, counts.data.ptr, inverse.data.ptr, number]
    backend.launches(("runs", wants_inverse), end, [values, order, totals], made)
    return first, inverse, counts


def _few_runs(backend: Any, x: Any, sort: Any, wants_inverse: bool, answer: int) -> tuple[Any, Any, Any]:
    """The same for one tile: one list of launches, into memory for as many as there are elements, all of which may be distinct."""

    def find(x: Any, answer: Any) -> list[Any]:
        values, order = sort(x)
        first, counts = backend.empty(x.shape, x.dtype), backend.empty(x.shape, _INT64)
        inverse = backend.empty((x.size if wants_inverse else 0,), _INT64)
        _visited(backend, few_distinct, values, None, first, counts, order, inverse, answer, inverse=wants_inverse)
        return [first, counts, inverse]

    first, counts, inverse = backend.launches(("few", wants_inverse), find, [x], [answer])
    number = backend.answers.wait()
    first, counts = (a.__class__((number,), a.dtype, a.data) for a in (first, counts))
    return first, inverse, counts
