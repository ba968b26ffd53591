"""Joining tensors: cat, stack and their relatives, grids and products of vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._backend.copies import rows_of
from ..._backend.cpu import cpu
from ..._core.dtypes import can_cast, from_numpy_dtype, promote_types
from ..._core.layouts import is_channels_last, is_dense, strides_in_order
from ..._core.sizes import check_room, wrap_dim
from ..._core.state import CUDA, META, modes
from ..._errors.frames import warn_user
from ..._tensor import Tensor, wrap
from ..records.batching import in_blocks, listed
from ..records.casting import cast_array
from ..records.out import into_out
from ..records.primitive import primitive
from ..records.rules import type_name
from ..records.shape_rules import dtype_of
from ..records.tangents import linear
from ..registry import ops, public, relabel
from .joining_arrays import joined, joined_on_device

_APART = 16  # arrays on a GPU that are copied one by one


def _counted(shapes: Any) -> list[bool]:
    """Which tensors take part: PyTorch skips empty vectors among tensors of any other shape."""
    part = [s != (0,) for s in shapes]
    return part if any(part) else [True] * len(part)


def _cat_meta(xs: Any, dim: int) -> Any:
    shapes = [x.shape for x in xs]
    shapes = [s for s, counts in zip(shapes, _counted(shapes)) if counts]
    shape = list(shapes[0])
    shape[dim] = sum(s[dim] for s in shapes)
    d = from_numpy_dtype(xs[0].dtype)
    for x in xs[1:]:
        d = promote_types(d, from_numpy_dtype(x.dtype))
    if all([is_channels_last(x.shape, x.strides) for x in xs]):
        return tuple(shape), d, strides_in_order(shape, (0, *range(2, len(shape)), 1))
    return tuple(shape), d


def _cat_gradient(g: Tensor, xs_shape: Any, dim: int, needs: Any) -> list[Any]:
    if not g._k | modes.on and (0,) not in xs_shape:
        before, parts, start = (slice(None),) * dim, [], 0
        for shape, needed in zip(xs_shape, needs):
            stop = start + shape[dim]
            parts.append(wrap(g._array[(*before, slice(start, stop))], g.dtype) if needed else None)
            start = stop
        return parts
    counts = _counted(xs_shape)
    pieces = iter(ops.split_with_sizes(g, [s[dim] for s, taken in zip(xs_shape, counts) if taken], dim))
    return [next(pieces) if taken else ops.new_zeros(g, 0) for taken in counts]


@primitive(many=True, name="cat", grad={"xs": _cat_gradient}, meta=_cat_meta, batch=listed, tangent=linear("xs"))
def cat_op(backend: Any, xs: Any, dim: int) -> Any:
    first, channels = xs[0].dtype, True
    for x in xs:
        if x.dtype is not first and x.dtype != first:
            d = from_numpy_dtype(first)
            for y in xs[1:]:
                d = promote_types(d, from_numpy_dtype(y.dtype))
            xs = [y if y.dtype == d.numpy else cast_array(y, d) for y in xs]
            break
    for x in xs:
        if x.ndim == 1:
            channels = False
            if x.shape == (0,):
                xs = [x for x, taken in zip(xs, _counted([x.shape for x in xs])) if taken]
                break
    if backend is cpu:
        return joined(xs, dim, channels)
    return joined_on_device(backend, xs, dim) if len(xs) <= _APART else backend.xp.concatenate(xs, dim)


def _overlap(x: Any, y: Any) -> bool:
    """Whether dense arrays share memory; of others nobody knows, and results are written when all is read."""
    dense = [is_dense(a.shape, a.strides, a.itemsize) for a in (x, y)]
    return all(dense) and bool(np.may_share_memory(x, y))


def _tensor_list(name: str, tensors: Any) -> list[Tensor]:
    if not isinstance(tensors, (tuple, list)):
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not {type(tensors).__name__}"
        )
    for i, x in enumerate(tensors):
        if not isinstance(x, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {type(x).__name__}")
    return list(tensors)


def _check_joinable(shapes: list[Any], dim: int) -> None:
    """Whether tensors of different shapes can be joined along a dimension."""
    full = [s for s in shapes if s != (0,)]
    for i, other in enumerate(shapes):
        if not other:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    for i, other in enumerate(full):
        shape = full[0]
        along = wrap_dim(dim, len(shape))
        if len(other) != len(shape):
            raise RuntimeError(f"Tensors must have same number of dimensions: got {len(shape)} and {len(other)}")
        if other[:along] != shape[:along] or other[along + 1 :] != shape[along + 1 :]:
            at = next(j for j in range(len(shape)) if j != along and other[j] != shape[j])
            raise RuntimeError(
                f"Sizes of tensors must match except in dimension {along}: expected {shape[at]} in dimension {at}, "
                f"got {other[at]} in tensor number {i}"
            )


@public(method=False, aliases=("concat", "concatenate"), planned=True)
def cat(tensors: Any, dim: int = 0, *, axis: int | None = None, out: Tensor | None = None) -> Tensor:
    """Joins tensors along a dimension they have.

    >>> import flambeau as torch
    >>> torch.cat([torch.tensor([1, 2]), torch.tensor([3])])
    tensor([1, 2, 3])
    """
    given = _tensor_list("cat", tensors)
    if axis is not None:
        dim = axis
    if not given:
        raise ValueError("expected a non-empty list of Tensors")
    if out is not None:
        for x in given:
            if x is out or (x._storage is not None and x._storage is out._storage and _overlap(x._array, out._array)):
                raise RuntimeError(
                    "unsupported operation: the input tensors cannot refer to any of the output memory locations."
                )
        if not all(can_cast(x.dtype, out.dtype) for x in given):
            raise TypeError(f"torch.cat(): input types can't be cast to the desired output type {type_name(out.dtype)}")
        return into_out(out, cat.__wrapped__, (tensors, dim), {})
    shape = given[0]._array.shape
    if shape and shape != (0,):
        along = wrap_dim(dim, len(shape))
        before, after = shape[:along], shape[along + 1 :]
        for x in given:
            other = x._array.shape
            if other != shape and (other[:along] != before or other[along + 1 :] != after or len(other) != len(shape)):
                break
        else:
            return cat_op(given, along)
    shapes = [x._array.shape for x in given]  # some are empty, or do not fit
    _check_joinable(shapes, dim)
    full = next((s for s in shapes if s != (0,)), None)
    return cat_op(given, 0 if full is None else wrap_dim(dim, len(full)))  # vectors without elements fit everything


def _stack_meta(xs: Any, dim: int) -> Any:
    own = xs[0].shape
    if dim < len(own):
        _, d, *strides = _cat_meta(xs, dim)
        shape = own[:dim] + (len(xs),) + own[dim:]
        return (shape, d, *[(*s[:dim], s[dim] * own[dim], *s[dim:]) for s in strides])
    return _cat_meta([x.reshape((*own, 1)) for x in xs], dim)[:2]


@primitive(
    many=True,
    name="stack",
    grad={"xs": lambda g, dim: list(ops.unbind(g, dim))},
    meta=_stack_meta,
    batch=listed,
    tangent=linear("xs"),
)
def stack_op(backend: Any, xs: Any, dim: int) -> Any:
    shape = xs[0].shape
    if dim < len(shape) and len(shape) in (4, 5):  # which may have channels last, and keeps them so
        return cat_op.forward(backend, xs, dim).reshape((*shape[:dim], len(xs), *shape[dim:]))
    made = shape[:dim] + (1,) + shape[dim:]
    rows = cat_op.forward(backend, [x.reshape(made) for x in xs], dim)
    return rows_of(rows)


@public(method=False, out=True, planned=True)
def stack(tensors: Any, dim: int = 0) -> Tensor:
    """Joins tensors of one shape along a new dimension.

    >>> import flambeau as torch
    >>> torch.stack([torch.tensor([1, 2]), torch.tensor([3, 4])], 1)
    tensor([[1, 3],
            [2, 4]])
    """
    given = _tensor_list("stack", tensors)
    if not given:
        raise RuntimeError("stack expects a non-empty TensorList")
    shape = given[0]._array.shape
    dim = wrap_dim(dim, len(shape) + 1)
    for i, x in enumerate(given):
        if x._array.shape != shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, got {list(shape)} at entry 0 and {list(x._array.shape)} "
                f"at entry {i}"
            )
    return stack_op(given, dim)


def _of_list(name: str, doc: str, prepare: Any, join: Any) -> Any:
    """A function of a list of tensors that are brought to some number of dimensions and joined."""

    def function(tensors: Any) -> Tensor:
        given = _tensor_list(name, tensors)
        if not given:
            raise RuntimeError(f"{name} expects a non-empty TensorList")
        return join([prepare(x) for x in given])

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _as_columns(x: Tensor) -> Tensor:
    return ops.reshape(x, (x._array.size, 1)) if x._array.ndim < 2 else x


hstack = public(method=False, out=True, planned=True)(
    _of_list(
        "hstack", "Joins tensors side by side: along the second dimension, vectors along the first.",
        lambda x: ops.atleast_1d(x), lambda xs: cat(xs, 0 if xs[0]._array.ndim == 1 else 1),
    )
)  # fmt: skip
vstack = public(method=False, out=True, aliases=("row_stack",), planned=True)(
    _of_list("vstack", "Joins tensors one below the other.", lambda x: ops.atleast_2d(x), lambda xs: cat(xs, 0))
)
dstack = public(method=False, out=True, planned=True)(
    _of_list("dstack", "Joins tensors along the third dimension.", lambda x: ops.atleast_3d(x), lambda xs: cat(xs, 2))
)
column_stack = public(method=False, out=True, planned=True)(
    _of_list("column_stack", "Joins tensors side by side, vectors as columns.", _as_columns, lambda xs: cat(xs, 1))
)


# -- grids and products ------------------------------------------------------------------------------------------


@public(method=False)
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """The coordinates of all points of a grid, one expanded tensor for each vector.

    >>> import flambeau as torch
    >>> rows, columns = torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij")
    >>> columns
    tensor([[0, 1, 2],
            [0, 1, 2]])
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing is None:
        warn_user(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument ('ij' or 'xy')"
        )
        indexing = "ij"
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    for x in tensors:
        if x._array.ndim > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor, got shape {list(x._array.shape)}")
        if x.dtype is not tensors[0].dtype:
            raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
        if (x._k ^ tensors[0]._k) & (CUDA | META) or (x._k & CUDA and x.device != tensors[0].device):
            raise RuntimeError("torch.meshgrid expects all tensors to have the same device")
    swap = indexing == "xy" and len(tensors) > 1
    given = [tensors[1], tensors[0], *tensors[2:]] if swap else list(tensors)
    shape = tuple([x.numel() for x in given])  # recordings follow it
    grids = []
    last = len(shape) - 1
    for i, x in enumerate(given):
        if i < last or not x._array.ndim:
            x = ops.reshape(x, (*[1] * i, -1 if shape[i] else 0, *[1] * (last - i)))
        grids.append(ops.expand(x, *shape))
    return (grids[1], grids[0], *grids[2:]) if swap else tuple(grids)


@public(method=False)
def cartesian_prod(*tensors: Any) -> Tensor:
    """All combinations of one element from each vector, as rows.

    >>> import flambeau as torch
    >>> torch.cartesian_prod(torch.tensor([1, 2]), torch.tensor([4, 5]))
    tensor([[1, 4],
            [1, 5],
            [2, 4],
            [2, 5]])
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    for x in tensors:
        if x._array.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(x._array.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return stack([ops.reshape(grid, (-1,)) for grid in meshgrid(*tensors, indexing="ij")], 1)


def _choices(n: int, r: int, again: bool) -> Any:
    """The indices of all choices of r of n elements, in their order, each once unless `again`."""
    count = math.comb(n + r - 1, r) if again and n else math.comb(n, r)
    check_room(max(count, 1) * r)
    if count <= 1 and (again or not count):
        return np.zeros((count, r), np.int64)
    np.empty((count, r), np.int64)  # a MemoryError now, and not after the work
    rows = np.arange(n).reshape(n, 1)
    for _ in range(r - 1):  # each choice is followed by all elements after its last
        first = rows[:, -1] + (not again)
        counts = n - first
        following = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts - first, counts)
        rows = np.concatenate([np.repeat(rows, counts, 0), following[:, None]], 1)
    return rows


@public()
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of r elements of a vector, as rows.

    >>> import flambeau as torch
    >>> torch.combinations(torch.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    if input._array.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input._array.shape)}")
    r = r.__index__()
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return ops.new_empty(input, (0,))
    rows = _choices(input._array.shape[0], r, with_replacement)
    chosen = ops.index_select(input, 0, ops.tensor(rows.reshape(-1), device=input.device))
    return relabel(ops.reshape(chosen, rows.shape), "StackBackward0")


def _corners(shapes: Any) -> list[tuple[int, int]]:
    corners, row, column = [], 0, 0
    for m, n in shapes:
        corners.append((row, column))
        row, column = row + m, column + n
    return [*corners, (row, column)]


def _block_gradient(g: Tensor, xs_shape: Any) -> list[Tensor]:
    return [
        ops.narrow(ops.narrow(g, 0, row, m), 1, column, n)
        for (row, column), (m, n) in zip(_corners(xs_shape), xs_shape)
    ]


@primitive(
    batch=in_blocks,
    meta=lambda xs: (_corners([x.shape for x in xs])[-1], dtype_of(xs[0])),
    many=True,
    name="block_diag",
    grad={"xs": _block_gradient},
    tangent=linear("xs"),
)
def block_diag_op(backend: Any, xs: Any) -> Any:
    corners = _corners([x.shape for x in xs])
    made = backend.zeros(corners[-1], xs[0].dtype)
    for (row, column), x in zip(corners, xs):
        made[row : row + x.shape[0], column : column + x.shape[1]] = x
    return made


@public(method=False)
def block_diag(*tensors: Any) -> Tensor:
    """The matrix with the given matrices along its diagonal.

    >>> import flambeau as torch
    >>> torch.block_diag(torch.tensor([[1, 2]]), torch.tensor(3))
    tensor([[1, 2, 0],
            [0, 0, 3]])
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    if not tensors:
        return ops.zeros((1, 0))
    d = tensors[0].dtype
    for i, x in enumerate(tensors):
        if x._array.ndim > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {x._array.ndim} dimensions"
            )
        d = promote_types(d, x.dtype)
    cast = [x if x.dtype is d else ops.to_dtype(x, d) for x in tensors]
    return block_diag_op([ops.atleast_2d(x) for x in cast])


SCHEMAS = """
cat|stack(Tensor[] tensors, int dim=0) -> Tensor  # autocast=widest
column_stack|dstack|hstack|vstack(Tensor[] tensors) -> Tensor
meshgrid(Tensor[] tensors) -> Tensor[]  # python, composite
meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]
cartesian_prod|block_diag(Tensor[] tensors) -> Tensor  # python, composite
combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor
"""
