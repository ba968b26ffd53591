"""One launch for the step of many parameters on a GPU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._backend.placement import gpu_count
from .._core.dtypes import BY_NUMPY, FLOATING
from .._core.layouts import is_dense
from .._core.state import CUDA
from .._dispatch import backend_of
from .._kernel.cuda.optim import CHUNK, THREADS, render, render_unscale
from .._kernel.training.optim import Formula


def suits(rows: list[tuple[Any, ...]]) -> bool:
    """Whether all arrays of parameters, gradients and states are dense and laid out alike, on the one GPU, and of one floating dtype."""
    d = rows[0][0].dtype
    known = BY_NUMPY.get(d)
    if gpu_count() != 1 or known is None or known.category != FLOATING or d.itemsize < 2:
        return False
    for row in rows:
        shape, strides = row[0].shape, row[0].strides
        if not is_dense(shape, strides, d.itemsize):
            return False
        for array in row:
            if isinstance(array, np.ndarray) or array.dtype != d or array.shape != shape:
                return False
            if array.strides != strides and any([s != t and n > 1 for s, t, n in zip(array.strides, strides, shape)]):
                return False
    return True


def run(formula: Formula, options: Any, code: str, rows: list[tuple[Any, ...]], numbers: list[Any]) -> None:
    """Makes the step: `numbers` has what the elements of each row share."""
    backend = backend_of(CUDA)
    if backend.capturing:  # the table of this launch would be read again by each replay
        raise RuntimeError(
            f"Attempting CUDA graph capture of step() of {formula.name} but param_groups' capturable is False; pass capturable=True"
        )
    key = "many", options, code
    kernel = formula.calls.get(key)
    if kernel is None:
        name = f"step_{formula.name}"
        text = render(name, formula.update, options, code, len(rows[0]) - 2, len(numbers[0]))
        kernel = formula.calls[key] = backend.compiled(name, text)
    blocks, words = _pieces(rows)
    shared = [own for row, own in zip(rows, numbers) if row[0].size]
    if words:
        table = np.concatenate([np.array(words, np.int64), np.array(shared, np.float64).view(np.int64)], 1)
        kernel((blocks,), (THREADS,), (backend.xp.asarray(table), len(words)))


def _pieces(rows: list[tuple[Any, ...]]) -> tuple[int, list[list[int]]]:
    """How many blocks work on so many rows of arrays, and for each row that has elements the blocks up to its end, its length and addresses."""
    blocks, words = 0, []
    for row in rows:
        size = row[0].size
        if size:
            blocks += math.ceil(size / CHUNK)
            words.append([blocks, size, *[array.data.ptr for array in row]])
    return blocks, words


def unscale(gradients: list[Any], factor: Any, found: Any) -> bool:
    """Multiplies dense arrays by a number in the GPU's memory; makes another one there 1 if an element is infinite or NaN. False if the arrays
    do not suit one launch for each dtype."""
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for g in gradients:
        if not suits([(g,)]):
            return False
        rows.setdefault(BY_NUMPY[g.dtype].code, []).append((g,))
    backend = backend_of(CUDA)
    if backend.capturing:
        return False
    for code, alike in rows.items():
        blocks, words = _pieces(alike)
        if words:
            kernel = backend.compiled("unscale", render_unscale("unscale", code))
            table = backend.xp.asarray(np.array(words, np.int64))
            kernel((blocks,), (THREADS,), (table, len(words), factor, found))
    return True
