"""Gradients of folds of plain dense tensors by one program each; for all others (None) their formulas say more."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._backend.cpu import cpu
from ..._core.allocation import zeros
from ..._core.dtypes import BY_NUMPY, float32, float64
from ..._core.state import CUDA, GRAD, local, modes
from ..._dispatch import backend_of
from ..._kernel.folds.rows import Rows
from ..._kernel.loops.lang import kernel
from ..._tensor import Tensor, wrap
from ..records.batching import along
from ..records.primitive import primitive
from .folding import to_last

_INT64 = np.dtype(np.int64)
_WIDE = (float32, float64)  # the gradients of 16-bit tensors are rounded as their formulas say


def along_rows(
    name: str, program: Rows, g: Tensor, x: Tensor, out: Tensor, dims: tuple[int, ...], numbers: tuple[float, ...] = ()
) -> Tensor | None:
    """What a program makes of a tensor, its fold over `dims` and the gradient of that; None if they are not plain and dense."""
    d, array = x.dtype, x._array
    if local.grad or modes.seen() or (g._k | x._k | out._k) & ~(GRAD | CUDA) or d not in _WIDE or g.dtype is not d:
        return None
    if not array.flags.c_contiguous or not array.size or not dims or dims[-1] - dims[0] + 1 != len(dims):
        return None
    return _row_gradient_op(x, g, out, name, program, dims, numbers)


@primitive(tensors=3, name="row_gradient", meta=lambda x, *rest: (x.shape, BY_NUMPY[x.dtype]), batch=along)
def _row_gradient_op(
    backend: Any, x: Any, g: Any, out: Any, name: str, program: Rows, dims: tuple[int, ...], numbers: Any
) -> Any:
    made = backend.empty(x.shape, x.dtype)
    lead = [n for i, n in enumerate(x.shape) if i not in dims]
    backend.along.run(name, program, [x, g.reshape(lead), out.reshape(lead)], [made], dims, numbers)
    return made


@kernel("(k),(k)->(n)")
def _placed_rows(m: Any, g: Any, place: Any, out: Any, add: Any) -> None:
    """The elements of g written (or added: `add`) at their places; those outside the row are left out."""
    for i in range(g.n):
        at = m.cast(place[i], "i64")
        if (at >= 0) & (at < out.n):
            out[at] = out[at] + g[i] if add else g[i]


def placed(g: Tensor, shape: Any, dim: int, index: Tensor, keepdim: bool, add: bool = False) -> Tensor | None:
    """Zeros with the elements of `g` at the places along a dimension that `index` has for them; with `add`, elements
    at one place are added."""
    d, values, places = g.dtype, g._array, index._array
    k, types = g._k | index._k, (d.code, "i64", d.code)
    if local.grad or modes.on or k & ~(GRAD | CUDA) or not d.code or places.dtype != _INT64 or not places.size:
        return None
    if keepdim:
        values, places = to_last(values, dim), to_last(places, dim)
    else:
        values, places = values[..., None], places[..., None]
    if not k & CUDA:
        out = zeros(shape, d.numpy)
        cpu.sized(places.size, _placed_rows, types, add=add)(values, places, to_last(out, dim))
        return wrap(out, d)
    if add:  # threads would meet
        return None
    backend = backend_of(CUDA)
    out = backend.empty(shape, d.numpy)
    out.fill(0)
    target = backend.shared(to_last(out, dim), places.shape[-1])
    backend.kernel(_placed_rows, types, add=False)(values[..., None], places[..., None], target)
    return wrap(out, d, CUDA)
