"""Views of the whole tensor: another shape, order of dimensions or extent of the same memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._backend.copies import row_major
from ..._core.dtypes import dtype as dtype_class
from ..._core.dtypes import from_numpy_dtype
from ..._core.layouts import (
    byte_strides,
    channel_order,
    channels_last,
    check_format,
    contiguous_format,
    element_strides,
    in_rows,
    is_dense_in_order,
    memory_format,
    preserve_format,
)
from ..._core.sizes import infer_size, size_argument, wrap_dim
from ..._core.state import CONJ, POSTPONED, SPARSE, SPECIAL, modes
from ..._tensor import Tensor
from ..basic import clone as clone_op
from ..records.batching import along, leading, permuted, reshaped
from ..records.primitive import primitive
from ..records.rules import type_name
from ..records.tangents import linear
from ..records.view_op import view_of, view_primitive
from ..registry import expose, ops, public, relabel
from .striding import address, storage_bounds, strided, view_strides, with_strides

_RESHAPES_WITHOUT_COPY = tuple(map(int, np.__version__.split(".")[:2])) >= (2, 1)

# -- shape -------------------------------------------------------------------------------------------------------


@view_primitive(lambda g, x_shape, shape: reshape(g, x_shape), "view", batch=reshaped)
def view_op(backend: Any, x: Any, shape: tuple[int, ...]) -> Any:
    return _reshaped(x, shape)


def _reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    """The memory of an array in another shape, which it can have. NumPy forgets strides of dimensions of extent 1 or 0."""
    if in_rows(x):
        return x.reshape(shape)
    strides = view_strides(x.shape, element_strides(x), shape)
    return x.reshape(shape) if strides is None else strided(x, shape, tuple([s * x.itemsize for s in strides]))


@primitive(
    name="unsafe_view", grad={"x": lambda g, x_shape: reshape(g, x_shape)},
    meta=lambda x, shape: (shape, from_numpy_dtype(x.dtype)),
    batch=reshaped,
    tangent=linear("x"),
    planned=True,
)  # fmt: skip
def copied_shape_op(backend: Any, x: Any, shape: tuple[int, ...]) -> Any:
    """A copy in another shape, for memory that cannot be viewed in it."""
    return row_major(x).reshape(shape)


def reshape(input: Tensor, *shape: Any, **named: Any) -> Tensor:
    """The same elements in another shape: a view where the memory allows it, otherwise a copy.

    >>> import flambeau as torch
    >>> torch.arange(6).reshape(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    if named or not shape:
        shape = by_name("reshape", shape, named, "shape")
    size: Any = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    x = input._array
    if (input._k | modes.on) <= 1:
        made = _without_copy(x, size)
        if made is not None:
            full = made.shape
            if full != size and min(size, default=0) < -1:  # NumPy takes any negative number for -1
                infer_size(size_argument(shape, "shape"), x.size)
            return view_of(view_op, input, made if in_rows(x) else _reshaped(x, full), (full,))
    full = infer_size(size_argument(shape, "shape"), x.size)
    if is_viewable(x, full):
        return view_op(input, full)
    return copied_shape_op(input, full)


def _without_copy(x: Any, size: Any) -> Any:
    """The memory of an array in another shape; None if that is for the exact rules to say."""
    if not _RESHAPES_WITHOUT_COPY:
        return None
    try:
        return x.reshape(size, copy=False)
    except (ValueError, TypeError, OverflowError):
        return None


def is_viewable(x: Any, shape: Sequence[int]) -> bool:
    """Whether an array's memory reads as `shape` without a copy."""
    return x.flags.c_contiguous or view_strides(x.shape, element_strides(x), shape) is not None


def by_name(name: str, args: Any, named: dict[str, Any], *keys: str) -> tuple[Any, ...]:
    """The arguments of a function of numbers or one sequence, which may also be given by name."""
    for key in keys:
        if not args and key in named:
            args = (named.pop(key),)
    if named:
        raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(named))}'")
    if not args:
        raise TypeError(f'{name}() missing 1 required positional arguments: "{keys[-1]}"')
    return args


def view(input: Tensor, *shape: Any, **named: Any) -> Tensor:
    """The same memory in another shape or dtype; raises where only a copy could have that shape.

    >>> import flambeau as torch
    >>> x = torch.arange(4)
    >>> x.view(2, 2).mul_(2); x
    tensor([[0, 2],
            [4, 6]])
    tensor([0, 2, 4, 6])
    """
    if named or not shape:
        shape = by_name("view", shape, named, "dtype", "size")
    first = shape[0]
    if first.__class__ is dtype_class:
        return view_as_dtype(input, first)
    size: Any = first if len(shape) == 1 and isinstance(first, (tuple, list)) else shape
    x = input._array
    if (input._k | modes.on) <= 1:
        if x.flags.c_contiguous:
            try:
                made = x.reshape(size)
            except (ValueError, TypeError, OverflowError):
                made = x.reshape(infer_size(size_argument(shape), x.size))
        else:
            made = _without_copy(x, size)
        if made is not None:
            full = made.shape
            if full != size and min(size, default=0) < -1:
                infer_size(size_argument(shape), x.size)
            if not in_rows(x):
                made = _reshaped(x, full)
            return view_of(view_op, input, made, (full,))
    full = infer_size(size_argument(shape), x.size)
    if not is_viewable(x, full):
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride: a dimension would join what "
            "does not lie together in memory; use .reshape(...)"
        )
    return view_op(input, full)


@primitive(view=True, name="view_dtype", differentiable=False, batch=leading)
def view_dtype_op(backend: Any, x: Any, d: dtype_class) -> Any:
    made = x.view(d.numpy)
    return made if d.itemsize == x.itemsize else strided(made, made.shape, (*byte_strides(x)[:-1], d.itemsize))


def view_as_dtype(x: Tensor, d: dtype_class) -> Tensor:
    """The same bytes read as another dtype; the last dimension grows or shrinks with the element size."""
    old, new = x.dtype.itemsize, d.itemsize
    if x._k & POSTPONED and d is not x.dtype:
        what = "conjugate view tensors" if x._k & CONJ else "tensors with negative bit set"
        raise RuntimeError(f"torch.Tensor.view is not supported for {what} when converting to a different dtype.")
    if old != new:
        names = f"{type_name(x.dtype)} as {type_name(d)} (different element sizes)"
        array = x._array
        strides = element_strides(array)
        if not strides:
            raise RuntimeError(f"self.dim() cannot be 0 to view {names}")
        if strides[-1] != 1:
            raise RuntimeError(f"self.stride(-1) must be 1 to view {names}, but got {strides[-1]}")
        if new > old:
            ratio = new // old
            if array.shape[-1] % ratio:
                raise RuntimeError(
                    f"self.size(-1) must be divisible by {ratio} to view {names}, but got {array.shape[-1]}"
                )
            if (address(array) - storage_bounds(x)[0]) // old % ratio:
                raise RuntimeError(f"self.storage_offset() must be divisible by {ratio} to view {names}")
            for i, s in enumerate(strides[:-1]):
                if s % ratio:
                    raise RuntimeError(f"self.stride({i}) must be divisible by {ratio} to view {names}, but got {s}")
    return view_dtype_op(x, d)


@public("Tensor.view_as")
def view_as(input: Tensor, other: Tensor) -> Tensor:
    """`input` viewed in the shape of `other`."""
    return ops.view(input, other._array.shape)


@public("Tensor.reshape_as")
def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """`input` reshaped to the shape of `other`."""
    return reshape(input, other._array.shape)


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Joins the dimensions from `start_dim` to `end_dim` into one.

    >>> import flambeau as torch
    >>> torch.zeros(2, 3, 4).flatten(1).shape
    torch.Size([2, 12])
    """
    shape = input._array.shape
    ndim = len(shape)
    if end_dim == -1 and start_dim.__class__ is int and 0 <= start_dim < ndim - 1 and input._array.size:
        return reshape(input, shape[:start_dim] + (math.prod(shape[start_dim:]),))
    start, end = wrap_dim(start_dim, ndim), wrap_dim(end_dim, ndim)
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if not shape:
        return reshape(input, (1,))
    if start == end:
        return input
    return reshape(input, shape[:start] + (math.prod(shape[start : end + 1]),) + shape[end + 1 :])


@public()
def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension."""
    if input._array.size and input._array.flags.c_contiguous:
        return ops.view(input, -1)
    made = contiguous(input)
    made = reshape(made, (-1,)) if made._array.size else reshape(made, (0,))
    return relabel(made, "ViewBackward0", copied_shape_op)


@public(views=True)
def unflatten(input: Tensor, dim: int, sizes: Any) -> Tensor:
    """Splits one dimension into several.

    >>> import flambeau as torch
    >>> torch.zeros(3, 4).unflatten(1, (2, -1)).shape
    torch.Size([3, 2, 2])
    """
    shape = input._array.shape
    if isinstance(dim, str):
        raise TypeError("unflatten(): argument 'dim' (position 1) must be int, not str")
    dim, sizes = wrap_dim(dim, len(shape)), size_argument((sizes,), "sizes")
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    if not shape:
        raise RuntimeError("unflatten: Dimension specified as 0 but tensor has no dimensions")
    try:
        parts = infer_size(sizes, shape[dim])
    except RuntimeError as error:
        if "can be any value" in str(error) or "only one" in str(error) or "invalid shape dimension" in str(error):
            raise
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} ({shape[dim]}) "
            "in the input tensor"
        ) from None
    return view(input, shape[:dim] + parts + shape[dim + 1 :])


# -- order -------------------------------------------------------------------------------------------------------


@view_primitive(lambda g, x_shape, dims: permute_op(g, inverse(dims)), "permute", batch=permuted)
def permute_op(backend: Any, x: Any, dims: tuple[int, ...]) -> Any:
    return with_strides(x).transpose(dims)


def inverse(dims: Sequence[int]) -> tuple[int, ...]:
    """The order of dimensions that undoes a permutation; dimensions may be counted from the end."""
    back = [0] * len(dims)
    for i, d in enumerate(dims):
        back[d] = i
    return tuple(back)


def permute(input: Tensor, *dims: Any, **named: Any) -> Tensor:
    """A view with its dimensions in another order.

    >>> import flambeau as torch
    >>> torch.zeros(2, 3, 5).permute(2, 0, 1).shape
    torch.Size([5, 2, 3])
    """
    if named or not dims:
        dims = by_name("permute", dims, named, "dims")
    order: Any = tuple(dims[0]) if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    x = input._array
    if not (input._k | modes.on) & SPECIAL and order:  # NumPy reverses the dimensions when it is given none
        try:
            made = with_strides(x).transpose(order)
        except (ValueError, TypeError):
            pass
        else:
            return view_of(permute_op, input, made, (order,))
    return permute_op(input, _order(dims, x.ndim))


def _order(dims: Any, ndim: int) -> tuple[int, ...]:
    order = size_argument(dims, "dims")
    if len(order) != ndim:
        raise RuntimeError(
            "permute: number of dimensions in the tensor input does not match the length of the desired "
            f"ordering, {ndim} and {len(order)}"
        )
    wrapped = tuple([wrap_dim(d, ndim) for d in order])
    if len(set(wrapped)) != ndim:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return wrapped


@view_primitive(lambda g, x_shape, a, b: transpose(g, a, b), "transpose", batch=along)
def transpose_op(backend: Any, x: Any, a: int, b: int) -> Any:
    return with_strides(x).swapaxes(a, b) if x.ndim else x[...]


def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """A view with two dimensions exchanged.

    >>> import flambeau as torch
    >>> torch.zeros(2, 3).transpose(0, 1).shape
    torch.Size([3, 2])
    """
    x = input._array
    if not (input._k | modes.on) & SPECIAL:
        try:
            made = with_strides(x).swapaxes(dim0, dim1)
        except (ValueError, TypeError):
            pass
        else:
            return view_of(transpose_op, input, made, (dim0, dim1))
    return transpose_op(input, wrap_dim(dim0, x.ndim), wrap_dim(dim1, x.ndim))


def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """Another name of `transpose`."""
    return transpose(input, axis0, axis1)


def swapdims(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Another name of `transpose`."""
    return transpose(input, dim0, dim1)


@public(aliases=("moveaxis",), views=True)
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Moves dimensions to new places; the others keep their order.

    >>> import flambeau as torch
    >>> torch.zeros(2, 3, 4).movedim(0, -1).shape
    torch.Size([3, 4, 2])
    """
    ndim = input._array.ndim
    given, wanted = _as_tuple(source), _as_tuple(destination)
    if len(given) != len(wanted):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: {list(given)} and {list(wanted)} differ in number"
        )
    from_, to = ([wrap_dim(d, ndim) for d in dims] for dims in (given, wanted))
    for name, dims, shown in (("source", from_, given), ("destination", to, wanted)):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(shown)})")
    if not ndim:
        return permute_op(input, ())
    rest = iter(d for d in range(ndim) if d not in from_)
    placed = dict(zip(to, from_))
    return permute_op(input, tuple(placed[d] if d in placed else next(rest) for d in range(ndim)))


def _as_tuple(dims: Any) -> tuple[int, ...]:
    return (dims,) if isinstance(dims, int) else size_argument((dims,), "dims")


# -- memory order ------------------------------------------------------------------------------------------------


def contiguous(input: Tensor, *, memory_format: memory_format = contiguous_format) -> Tensor:
    """The tensor itself if it lies in memory in the given order, otherwise a copy that does."""
    if memory_format is contiguous_format:
        return input if input._array.flags.c_contiguous else clone_op(input, "C")
    check_format(memory_format)
    if memory_format is preserve_format:
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    return input if is_contiguous(input, memory_format=memory_format) else in_format(input, memory_format)


def in_format(input: Tensor, form: memory_format) -> Tensor:
    """A copy of a tensor in a memory format."""
    if form is preserve_format:
        return clone_op(input, "K")
    if form is contiguous_format:
        return clone_op(input, "C")
    order = channel_order(form, input._array.ndim)
    return permute_op(clone_op(permute_op(input, order), "C"), inverse(order))


@public("Tensor.is_contiguous")
def is_contiguous(input: Tensor, memory_format: memory_format = contiguous_format) -> bool:
    """Whether the elements lie in memory in the given order without gaps."""
    x = input._array
    if input._k & SPARSE:
        return bool(ops.sparse_is_contiguous(input))
    if memory_format is contiguous_format or memory_format is preserve_format:
        return bool(x.flags.c_contiguous)
    check_format(memory_format)
    if x.ndim != (4 if memory_format is channels_last else 5):
        return False
    return is_dense_in_order(x.shape, byte_strides(x), channel_order(memory_format, x.ndim), x.itemsize)


for _function in (reshape, permute, transpose, swapaxes, swapdims, flatten):
    public(views=True)(_function)
public("Tensor.view", views=True)(view)
expose("contiguous", contiguous, None)  # methods go straight to the function
expose("in_format", in_format, None, None)
del _function


SCHEMAS = """
reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)
view(Tensor(a) self, SymInt[] size) -> Tensor(a)
view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)
view_as|reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)
flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)
ravel(Tensor(a) self) -> Tensor(a)
unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)
permute(Tensor(a) self, int[] dims) -> Tensor(a)
transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)
swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)
swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)
movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)
movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)
contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)
is_contiguous(Tensor self) -> bool
is_contiguous.memory_format(Tensor self, MemoryFormat memory_format) -> bool
unsafe_view  # record=_unsafe_view
view_dtype  # record=view
"""
