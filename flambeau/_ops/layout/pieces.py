"""Tensors cut into pieces along a dimension: split, chunk, unbind."""

from __future__ import annotations

import functools
import itertools
from typing import Any

from ..._core.sizes import check_room, size_argument, wrap_dim
from ..._core.state import modes
from ..._core.steps import tell
from ..._tensor import Tensor
from ..records.batching import along
from ..records.primitive import primitive
from ..records.rules import type_name
from ..records.tangents import linear
from ..records.view_op import views_of
from ..registry import ops, public
from .parts import keys_before, slice_op
from .striding import cut


@functools.lru_cache(1024)
def _cuts(sizes: tuple[int, ...], dim: int) -> list[Any]:
    """The keys of consecutive pieces."""
    ends = list(itertools.accumulate(sizes))
    return [(*keys_before(dim), slice(end - n, end)) for n, end in zip(sizes, ends)]


def _pieces(backend: Any, x: Any, sizes: tuple[int, ...], dim: int) -> Any:
    keys = _cuts(sizes, dim)
    return tuple([x[key] for key in keys]) if 0 not in sizes else tuple([cut(x, key) for key in keys])


def _joined(gs: Any, sizes: Any, dim: int) -> Tensor:
    return ops.cat(gs, dim)


def _split_record(name: str, backward_name: str, view: bool) -> Any:
    rule = None if view else lambda *args: _pieces(None, *args)
    return primitive(
        view=view,
        batch=along,
        tangent=linear("x"),
        meta=rule,
        name=name,
        backward_name=backward_name,
        grad={"x": _joined},
    )(_pieces)


split_op = _split_record("split", "SplitBackward0", True)
split_with_sizes_op = _split_record("split_with_sizes", "SplitWithSizesBackward0", True)
unsafe_split_op = _split_record("unsafe_split", "UnsafeSplitBackward0", False)
unsafe_split_with_sizes_op = _split_record("unsafe_split_with_sizes", "UnsafeSplitWithSizesBackward0", False)


def _even_sizes(x: Tensor, size: int, dim: int) -> tuple[tuple[int, ...], int]:
    shape = x._array.shape
    if not shape:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    dim = wrap_dim(dim, len(shape))
    return _even(shape[dim], size.__index__()), dim


@functools.lru_cache(1024)
def _even(n: int, size: int) -> tuple[int, ...]:
    """The sizes of pieces of n elements."""
    if size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
    if size == 0 and n:
        raise RuntimeError(f"split expects split_size greater than 0 for a dimension of size {n}")
    count = max(-(-n // size), 1) if size else 1
    return tuple([size] * (count - 1) + [n - size * (count - 1)])


def _given_sizes(x: Tensor, sizes: Any, dim: int) -> tuple[tuple[int, ...], int]:
    shape = x._array.shape
    if not shape:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    dim, sizes = wrap_dim(dim, len(shape)), size_argument((sizes,), "split_sizes")
    if any(n < 0 for n in sizes):
        raise RuntimeError(f"split_with_sizes expects split_sizes to be non-negative, got {list(sizes)}")
    if sum(sizes) != shape[dim]:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {shape[dim]}, the size of dimension {dim}, "
            f"got {list(sizes)}"
        )
    return sizes, dim


def _split_views(op: Any, x: Tensor, sizes: tuple[int, ...], dim: int) -> tuple[Tensor, ...]:
    if (x._k | modes.on) <= 1:
        return views_of(op, x, _pieces(None, x._array, sizes, dim), (sizes, dim))
    return op(x, sizes, dim)


def split(tensor: Tensor, split_size_or_sections: Any = None, dim: int = 0, **named: Any) -> tuple[Tensor, ...]:
    """Views of consecutive pieces: each of one size (the last may be smaller), or of the sizes given.

    >>> import flambeau as torch
    >>> torch.arange(5).split(2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    if named:  # the method calls its argument otherwise
        split_size_or_sections = named.pop("split_size", split_size_or_sections)
        dim = named.pop("axis", dim)
        if named:
            raise TypeError(f"split() got an unexpected keyword argument '{next(iter(named))}'")
    if getattr(split_size_or_sections, "ndim", 1) == 0:  # a 0-d tensor
        split_size_or_sections = split_size_or_sections.__index__()
    if isinstance(split_size_or_sections, int):
        return _split_views(split_op, tensor, *_even_sizes(tensor, split_size_or_sections, dim))
    return _split_views(split_with_sizes_op, tensor, *_given_sizes(tensor, split_size_or_sections, dim))


@public(views=True)
def split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive pieces of the sizes given."""
    return split_with_sizes_op(input, *_given_sizes(input, split_sizes, dim))


@public()
def unsafe_split(tensor: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`split` whose pieces may be written in place although autograd does not know that they share memory."""
    return unsafe_split_op(tensor, *_even_sizes(tensor, split_size, dim))


@public()
def unsafe_split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """`split_with_sizes` whose pieces may be written in place."""
    return unsafe_split_with_sizes_op(input, *_given_sizes(input, split_sizes, dim))


def _chunk_sizes(x: Tensor, chunks: int, dim: int) -> tuple[tuple[int, ...], int]:
    shape = x._array.shape
    if not shape:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    dim = wrap_dim(dim, len(shape))
    n = shape[dim]
    if not n:
        return (0,) * chunks, dim
    return _even(n, -(-n // chunks)), dim


def chunk(input: Tensor, chunks: int, dim: int = 0, *, axis: int | None = None) -> tuple[Tensor, ...]:
    """Views of at most `chunks` pieces of equal size; the last may be smaller.

    >>> import flambeau as torch
    >>> torch.arange(5).chunk(2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    return _split_views(split_op, input, *_chunk_sizes(input, chunks, dim if axis is None else axis))


@public()
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`chunk` whose pieces may be written in place."""
    return unsafe_split_op(input, *_chunk_sizes(input, chunks, dim))


@public(aliases=(), views=True)
def tensor_split(input: Tensor, indices_or_sections: Any = None, dim: int = 0, **named: Any) -> tuple[Tensor, ...]:
    """Views of pieces: a number of nearly equal ones, or cut at the indices given.

    >>> import flambeau as torch
    >>> torch.arange(5).tensor_split(3)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    for key in ("indices", "sections", "tensor_indices_or_sections"):
        if key in named:
            indices_or_sections = named.pop(key)
    if named:
        raise TypeError(f"tensor_split() got an unexpected keyword argument '{next(iter(named))}'")
    shape = input._array.shape
    if not shape:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    dim = wrap_dim(dim, len(shape))
    n = shape[dim]
    at = indices_or_sections
    if isinstance(at, Tensor):
        if at.dtype.name != "int64":
            raise RuntimeError(
                f"tensor_split expected tensor_indices_or_sections to have dtype of long, but got {type_name(at.dtype)}"
            )
        if at._array.ndim > 1:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, "
                f"but got a tensor with {at._array.ndim} dims"
            )
        tell("elements_read", at)
        at = at._array.tolist()
    if isinstance(at, int):
        if at <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {at}")
        check_room(at, 1 << 10)  # about what as many views take
        whole, extra = divmod(n, at)
        cuts = [i * whole + min(i, extra) for i in range(at + 1)]
    else:
        cuts = [0, *size_argument((at,), "indices"), n]
    out = []
    for i, start in enumerate(cuts[:-1]):
        first, last, _ = slice(start, cuts[i + 1] if i + 2 < len(cuts) else n).indices(n)
        out.append(slice_op(input, dim, first, max(first, last), 1))
    return tuple(out)


def _axis_split(name: str, least: int, dim_of: Any) -> Any:
    def split_along(input: Tensor, indices_or_sections: Any = None, **named: Any) -> tuple[Tensor, ...]:
        for key in ("indices", "sections"):
            if key in named:
                indices_or_sections = named.pop(key)
        if named:
            raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(named))}'")
        ndim = input._array.ndim
        if ndim < least:
            raise RuntimeError(f"torch.{name} requires a tensor with at least {least} dimension, got one with {ndim}")
        dim = dim_of(ndim)
        sections = indices_or_sections
        if isinstance(sections, int):
            if sections == 0 or input._array.shape[dim] % sections:
                raise RuntimeError(
                    f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension "
                    f"{input._array.shape[dim]} is not divisible by the split_size {sections}!"
                )
        return tensor_split(input, sections, dim)

    split_along.__name__ = split_along.__qualname__ = name
    split_along.__doc__ = f"`tensor_split` along the dimension that {name[0]}-stacking joins."
    return public(views=True)(split_along)


hsplit = _axis_split("hsplit", 1, lambda ndim: 0 if ndim == 1 else 1)
vsplit = _axis_split("vsplit", 2, lambda ndim: 0)
dsplit = _axis_split("dsplit", 3, lambda ndim: 2)


@primitive(view=True, name="unbind", grad={"x": lambda gs, dim: ops.stack(gs, dim)}, batch=along)
def unbind_op(backend: Any, x: Any, dim: int) -> Any:
    if dim:
        x = x.swapaxes(0, dim) if dim == 1 else x.transpose((dim, *range(dim), *range(dim + 1, x.ndim)))
    return tuple(x) if x.ndim > 1 else tuple([x[i, ...] for i in range(x.shape[0])])


def unbind(input: Tensor, dim: int = 0, *, axis: int | None = None) -> tuple[Tensor, ...]:
    """Views of all slices along a dimension, without it.

    >>> import flambeau as torch
    >>> torch.arange(4).view(2, 2).unbind()
    (tensor([0, 1]), tensor([2, 3]))
    """
    shape = input._array.shape
    dim = wrap_dim(dim if axis is None else axis, len(shape))
    if not shape:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    if (input._k | modes.on) <= 1:
        return views_of(unbind_op, input, unbind_op.forward(None, input._array, dim), (dim,))
    return unbind_op(input, dim)


for _function in (split, chunk, unbind):
    public(views=True)(_function)


SCHEMAS = """
split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]  # python
split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]
split(Tensor(a -> *) self, int[] split_sizes, int dim=0) -> Tensor(a)[]
split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]
unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]
unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]
chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]
unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]
tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]
tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]
tensor_split.tensor_indices_or_sections(Tensor(a -> *) self, Tensor tensor_indices_or_sections, int dim=0) -> Tensor(a)[]
dsplit|hsplit|vsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]
dsplit|hsplit|vsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]
unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]
"""
