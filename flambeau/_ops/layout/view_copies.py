"""Copies of views (`…_copy`) and copies with a view overwritten (`…_scatter`)."""

from __future__ import annotations

from typing import Any

from ..._backend.copies import with_gaps
from ..._core.sizes import wrap_dim
from ..._tensor import Tensor
from ..basic import clone
from ..records.batching import along, leading
from ..records.primitive import primitive
from ..records.shape_rules import dense
from ..records.tangents import linear
from ..records.view_op import view_primitive
from ..registry import expose, labelled, ops, public, relabel
from .parts import diagonal_array, diagonal_dims, diagonal_extent, diagonal_op, index_op, place


def _copy_of(view: Tensor) -> Tensor:
    copy = clone(view, "C")
    if copy._edge is not None and view._edge is not None:
        relabel(copy, view._edge[0].name() + "_copy")
    return copy


def _copy_form(view: str, tuple_result: bool = False) -> None:
    """`<view>_copy`: the same result in its own memory."""

    function = "reshape" if view == "view" else view  # what is a copy anyway need not be one of a view

    def copied(input: Tensor, *args: Any, **named: Any) -> Any:
        made = getattr(ops, function)(input, *args, **named)
        if tuple_result:
            return tuple([_copy_of(part) for part in made])
        return _copy_of(made)

    copied.__name__ = copied.__qualname__ = view + "_copy"
    copied.__doc__ = f"`{view}`, but as a copy."
    public(method=False, out=True)(copied)


@view_primitive(lambda g, x_shape: g, "alias", batch=leading)
def alias_op(backend: Any, x: Any) -> Any:
    """The same memory as another tensor."""
    return x[...]


expose("alias", alias_op, None, None)
for _name in (
    "alias", "detach", "diagonal", "expand", "permute", "select", "slice", "squeeze", "t", "transpose", "unfold",
    "unsqueeze", "view", "view_as_real", "view_as_complex", "as_strided",
):  # fmt: skip
    _copy_form(_name)
for _name in ("split", "split_with_sizes", "unbind"):
    _copy_form(_name, True)


@public(out="exact")
@labelled("NarrowCopyBackward0")
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """`narrow`, but as a copy."""
    if dim >= max(input._array.ndim, 1):
        raise RuntimeError(
            f"narrow_copy: dimension {dim} is out of range for a tensor of {input._array.ndim} dimensions"
        )
    return clone(ops.narrow(input, dim, start, length), "C")


# -- scatter -----------------------------------------------------------------------------------------------------


@primitive(
    tensors=2, name="index_scatter",
    grad={
        "x": lambda g, source_shape, index: index_scatter_op(g, ops.new_zeros(g, source_shape), index),
        "source": lambda g, index: index_op(g, index),
    },
    batch=along, meta=dense,
    tangent=linear("x", "source"),
)  # fmt: skip
def index_scatter_op(backend: Any, x: Any, source: Any, index: tuple[Any, ...]) -> Any:
    """A copy of x with `source` written at a basic index."""
    made = with_gaps(x)
    made[index] = source
    return made


def _fit(name: str, input: Tensor, src: Tensor, shape: Any) -> Tensor:
    if tuple(src._array.shape) != tuple(shape):
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self, got {list(src._array.shape)} for {list(shape)}"
        )
    return src if src.dtype is input.dtype else ops.to_dtype(src, input.dtype)


@public()
@labelled("SelectScatterBackward0")
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of `input` with `src` written at one index of a dimension.

    >>> import flambeau as torch
    >>> torch.select_scatter(torch.zeros(2, 2), torch.ones(2), 0, 1)
    tensor([[0., 0.],
            [1., 1.]])
    """
    shape = input._array.shape
    if not shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, len(shape))
    if not -shape[dim] <= index < shape[dim]:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(shape)} at dimension {dim}")
    source = _fit("select_scatter", input, src, shape[:dim] + shape[dim + 1 :])
    return index_scatter_op(input, source, ((slice(None),) * dim + (index, ...)))


@public(out=True)
@labelled("SliceScatterBackward0")
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A copy of `input` with `src` written at a slice of a dimension."""
    shape = input._array.shape
    dim = wrap_dim(dim, len(shape))
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    first, last, _ = slice(start, end).indices(shape[dim])
    last = max(first, last)
    source = _fit("slice_scatter", input, src, (*shape[:dim], len(range(first, last, step)), *shape[dim + 1 :]))
    return index_scatter_op(input, source, ((slice(None),) * dim + (slice(first, last, step), ...)))


@primitive(
    tensors=2, name="diagonal_scatter",
    grad={
        "x": lambda g, source_shape, offset, a, b: diagonal_scatter_op(g, ops.new_zeros(g, source_shape), offset, a, b),
        "source": lambda g, offset, a, b: diagonal_op(g, offset, a, b),
    },
    batch=along, meta=dense,
    tangent=linear("x", "source"),
)  # fmt: skip
def diagonal_scatter_op(backend: Any, x: Any, source: Any, offset: int, a: int, b: int) -> Any:
    made = with_gaps(x)
    diagonal_array(made, offset, a, b)[...] = source
    return made


@public()
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of `input` with `src` written on a diagonal."""
    a, b = diagonal_dims(input, dim1, dim2)
    shape = input._array.shape
    rest = tuple(n for d, n in enumerate(shape) if d not in (a, b))
    source = _fit("diagonal_scatter", input, src, (*rest, diagonal_extent(shape, offset, a, b)))
    return diagonal_scatter_op(input, source, offset, a, b)


__all__ = ["index_scatter_op", "place"]


SCHEMAS = """
split_copy.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]
narrow_copy(Tensor self, int dim, SymInt start, SymInt length) -> Tensor
select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor
slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor
diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor
"""
