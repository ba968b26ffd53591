"""Parts of a tensor at a position that another tensor holds: what `x[i]` is in a recorded program, where `i` is another in each run.

An eager run reads the position and takes a view. In a program the tensor with the position is an operand, of the view and of its derivative.
"""

from __future__ import annotations

from typing import Any

from ..._backend.copies import place
from ..._core.dtypes import INTEGER, int64
from ..._core.state import BATCHED, CAPTURE, DUAL, GRAD, local, modes
from ..._tensor import Tensor
from ..records.primitive import Primitive, primitive
from ..records.shape_rules import dtype_of
from ..records.tangents import linear
from ..registry import expose, ops
from . import index_kernels as kernels

_ALL = slice(None)


def _start(shape: Any, at: Any, dim: int, length: int | None, named: int | None) -> int:
    """Where a part begins, or the error that eager functions raise: `x[i]` tells the dimension (`named`), `select` tells all."""
    start, n = int(at[0]), shape[dim]
    if length is None:
        if -n <= start < n:
            return start % n
        if named is None:
            raise IndexError(
                f"select(): index {start} out of range for tensor of size {list(shape)} at dimension {dim}"
            )
        raise IndexError(f"index {start} is out of bounds for dimension {named} with size {n}")
    if not -n <= start <= n:
        raise IndexError(f"start out of range (expected to be in range of [{-n}, {n}], but got {start})")
    start += n if start < 0 else 0
    if start > n - length:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    return start


def _key(shape: Any, at: Any, dim: int, length: int | None, named: int | None) -> tuple[Any, ...]:
    start = _start(shape, at, dim, length, named)
    return (*[_ALL] * dim, start if length is None else slice(start, start + length), ...)


def _part(backend: Any, x: Any, at: Any, dim: int, length: int | None, named: int | None) -> Any:
    """A view of x at a position along a dimension: one entry, without the dimension, or so many."""
    return x[_key(x.shape, at, dim, length, named)]


def _of_batch(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """The same part of all samples; positions of their own are indices like others, and do not come here."""
    if mapped[1] or not mapped[0]:
        return NotImplemented
    moved = {"dim": lambda dim: dim + 1, "shape": lambda shape: (size, *shape)}
    return op(*args[:2], *[moved[n](a) if n in moved else a for n, a in zip(op.names[2:], args[2:])])


part_at = Primitive(
    _part,
    {"x": lambda g, x_shape, at, dim, length, named: place_at(g, at, x_shape, dim, length, named)},
    tensors=2,
    view=True,
    batch=_of_batch,
    tangent=linear("x"),
    name="part_at",
    backward_name=lambda node: "SelectBackward0" if node.saved is None or node.saved[3] is None else "SliceBackward0",
)


@primitive(
    name="taken_at",
    grad={"x": lambda g, x_shape, at, dim, named: place_at(g, at, x_shape, dim, None, named)},
    tensors=2,
    meta=lambda x, at, dim, named: ((*x.shape[:dim], *x.shape[dim + 1 :]), dtype_of(x)),
    backward_name="SelectBackward0",
    batch=_of_batch,
    tangent=linear("x"),
)
def taken_at(backend: Any, x: Any, at: Any, dim: int, named: int | None) -> Any:
    """The entry at a position as a copy, which kernels make without Python. Programs do so where nobody could tell it from the view."""
    made = kernels.take_rows(backend, x, at, dim, from_end=True)
    if made is None:
        _start(x.shape, at, dim, None, named)
    return made.reshape((*x.shape[:dim], *x.shape[dim + 1 :]))


@primitive(
    name="place_at",
    grad={"g": lambda g, at, dim, length, named: part_at(g, at, dim, length, named)},
    tensors=2,
    meta=lambda g, at, shape, dim, length, named: (shape, dtype_of(g)),
    batch=_of_batch,
    tangent=linear("g"),
)
def place_at(
    backend: Any, g: Any, at: Any, shape: tuple[int, ...], dim: int, length: int | None, named: int | None
) -> Any:
    """Zeros of a shape with `g` in the part at a position: the derivative of taking that part."""
    whole = backend.zeros(shape, g.dtype)
    if length is None:
        kernels.update_rows(backend, whole, dim, at, g.reshape((*g.shape[:dim], 1, *g.shape[dim:])), "set", True)
    else:
        place(whole[_key(shape, at, dim, length, named)], g)
    return whole


def is_position(x: Tensor, index: Any) -> bool:
    """Whether an index of `x` is a tensor whose number is another in each run of what is being recorded."""
    return (
        bool(modes.on & CAPTURE and local.captures)
        and isinstance(index, Tensor)
        and not index._array.ndim
        and index.dtype.category == INTEGER
        and not (x._k & ~(GRAD | BATCHED | DUAL) or index._k & ~GRAD)
        and local.captures[-1].problem is None
    )


def at_position(x: Tensor, dim: int, index: Any, length: int | None = None, named: int | None = None) -> Tensor:
    """The view of one entry of a dimension, or of `length` of them, from where an index tensor says on."""
    own = ops.clone(ops.reshape(index, (1,))) if index.dtype is int64 else ops.to(ops.reshape(index, (1,)), int64)
    return part_at(x, own, dim, length, named)


expose("at_position", at_position, None, None)
expose("is_position", is_position, None, None)
