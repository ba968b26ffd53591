"""An index for every row of a dimension: index_select and its relatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.dtypes import BOOL, COMPLEX, bool_, from_numpy_dtype, int32, int64, scalar_dtype
from ..._core.sizes import wrap_dim
from ..._tensor import Tensor
from .. import registry
from ..basic import zeros
from ..making.factory import finished
from ..records.batched_places import by_rows, selected
from ..records.casting import checked_array, checked_number, number_array
from ..records.casting import write as write_array
from ..records.out import check_out_dtype
from ..records.primitive import primitive
from ..records.refusals import refusal
from ..records.rules import not_implemented, type_name
from ..records.shape_rules import dtype_of
from ..records.tangents import linear
from ..records.update import fitting, into_zeros, update, updates
from ..records.writable import check_writable
from ..registry import ops, public
from . import index_kernels as kernels
from .scatter import accumulated, check_index, scatter_reduce_op


def _row_index(name: str, x: Tensor, dim: int, index: Tensor, error: type[Exception] = IndexError) -> int:
    """Checks an index with an entry for every row."""
    dim = wrap_dim(dim, x._array.ndim)
    if index._array.ndim > 1:
        raise error(f"{name}(): Index is supposed to be a vector, but got dim: {index._array.ndim}")
    return dim


@refusal
def _check_rows(backend: Any, index: Any, rows: int) -> None:
    if kernels.first_outside(backend, index, 0, rows) is not None:
        raise IndexError("index out of range in self")


@updates()
def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    """Rows of `source` reduced into the rows of the input that an index names: prod, mean, amax or amin."""
    dim = _row_index("index_reduce_", input, dim, index)
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    if index.dtype is not int64 and index.dtype is not int32:
        raise RuntimeError("index_reduce(): Expected dtype int32/int64 for index")
    _same_dtype("index_reduce_", input, source)
    if input.dtype.category in (BOOL, COMPLEX):
        raise not_implemented("index_func_", input.dtype)
    _row_shapes("index_reduce_", input, dim, index, source)
    if source._array.size:
        _check_rows(index, input._array.shape[dim] if input._array.ndim else 1)
    if source._array.ndim:
        shape = [1] * source._array.ndim
        shape[dim] = index._array.size
        index = ops.expand(ops.reshape(index, shape), source._array.shape)
    else:
        index = ops.reshape(index, ())
    return scatter_reduce_op, (input, index, source, dim, reduce, include_self, True)


# -- an index for every row ----------------------------------------------------------------------------------------


def _same_dtype(name: str, input: Tensor, source: Tensor) -> None:
    if input.dtype is not source.dtype:
        raise RuntimeError(
            f"{name}(): self ({type_name(input.dtype)}) and source ({type_name(source.dtype)}) must have the same scalar type"
        )


def _row_shapes(name: str, input: Tensor, dim: int, index: Tensor, source: Tensor, copies: bool = False) -> None:
    """Checks that `source` has a row for every index, and rows like those of the input: numbers are rows only for who `copies`."""
    count = index._array.size
    shape, given = input._array.shape, source._array.shape
    have = given[dim] if given else 1
    if count != have:
        if copies:
            raise IndexError(f"{name}(): Number of indices ({count}) should be equal to source.size(dim) ({have})")
        raise RuntimeError(
            f"{name}(): Number of indices ({count}) should be equal to source.size(dim): ({have}), for dim: {dim}"
        )
    alike = len(shape) == len(given) or (copies and len(shape) <= 1 and len(given) <= 1)
    if not alike or shape[:dim] != given[:dim] or shape[dim + 1 :] != given[dim + 1 :]:
        raise (IndexError if copies else RuntimeError)(
            f"{name}(): source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {list(shape)} source.shape = {list(given)}"
        )


def _as_rows(x: Any, index: Any, source: Any = None) -> tuple[Any, Any, Any]:
    """0-d arrays count as vectors of one element."""
    return (
        x if x.ndim else x.reshape(1), index if index.ndim else index.reshape(1),
        source if source is None or source.ndim else source.reshape(1),
    )  # fmt: skip


def _selected_shape(x: Any, index: Any, dim: int) -> Any:
    if not x.ndim:
        return (), dtype_of(x)
    if not x.shape[dim] and index.size:
        raise RuntimeError("index_select(): self indexing axis dim should be positive")
    return (*x.shape[:dim], index.size, *x.shape[dim + 1 :]), dtype_of(x)


@primitive(
    meta=_selected_shape,
    tensors=2, name="index_select",
    grad={"x": lambda g, x_shape, index, dim: into_zeros(index_add_op, x_shape, g, index, g, dim, 1)},
    batch=selected,
    tangent=linear("x"),
)  # fmt: skip
def index_select_op(backend: Any, x: Any, index: Any, dim: int) -> Any:
    rows, index, _ = _as_rows(x, index)
    if not x.size and index.size:
        if not rows.shape[dim]:
            raise RuntimeError("index_select(): self indexing axis dim should be positive")
        if kernels.first_outside(backend, index, 0, rows.shape[dim]) is not None:
            raise RuntimeError("index_select(): INDICES element is out of DATA bounds")
    made = kernels.take_rows(backend, rows, index, dim)
    if made is None:
        raise IndexError("index out of range in self")
    return made if x.ndim else made.reshape(())


@public(planned=True)
def index_select(input: Tensor, dim: int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The entries of a dimension that a vector of indices names, as a copy.

    >>> import flambeau as torch
    >>> torch.index_select(torch.tensor([[1, 2], [3, 4]]), 0, torch.tensor([1, 1]))
    tensor([[3, 4],
            [3, 4]])
    """
    if out is not None:
        if isinstance(out, Tensor):
            check_writable(out)
            check_out_dtype(out, input.dtype)
        return registry.into_out(out, index_select, (input, dim, index), {})
    dim = _row_index("index_select", input, dim, index)
    if index.dtype is not int64 and index.dtype is not int32:
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    if input._array.ndim == 0 and index._array.size != 1:
        raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {index._array.size} value(s)")
    return index_select_op(input, index, dim)


def _times(g: Tensor, alpha: Any) -> Tensor:
    return g if alpha == 1 else g * (alpha.conjugate() if isinstance(alpha, complex) else alpha)


@update(
    tensors=3, name="index_add", rows=True, planned=True,
    grad={
        "x": lambda g: g,
        "source": lambda g, index, source_shape, dim, alpha: ops.reshape(
            _times(index_select_op(g, index, dim), alpha), source_shape
        ),
    },
    batch=by_rows("scatter_add"),
    tangent=linear("x", "source"),
)  # fmt: skip
def index_add_op(backend: Any, x: Any, index: Any, source: Any, dim: int, alpha: Any) -> None:
    rows, index, source = _as_rows(x, index, source)
    if x.ndim < 2:
        check_index(backend, rows, index, dim, IndexError, "index out of range in self", noted=True)
    else:
        check_index(backend, rows, index, dim, noted=True)
    wide = rows
    if alpha != 1:
        with np.errstate(all="ignore"):
            source = source * backend.xp.asarray(number_array(alpha, from_numpy_dtype(x.dtype)))
    elif x.ndim == 2:  # otherwise half precision is rounded after every row, as PyTorch does it
        wide, source = accumulated(rows, source)
    kernels.update_rows(backend, wide, dim, index, source, "add")
    if wide is not rows:
        write_array(rows, wide, from_numpy_dtype(rows.dtype))


@updates()
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Any:
    """Rows of `source`, times alpha, added in order to the rows of the input that an index names.

    >>> import flambeau as torch
    >>> torch.zeros(3).index_add(0, torch.tensor([0, 2, 0]), torch.tensor([1.0, 2.0, 3.0]))
    tensor([4., 0., 2.])
    """
    dim = _row_index("index_add_", input, dim, index)
    if index.dtype is not int64 and index.dtype is not int32:
        raise RuntimeError("index_add_(): Expected dtype int32/int64 for index")
    _same_dtype("index_add_", input, source)
    _row_shapes("index_add_", input, dim, index, source)
    return index_add_op, (input, index, source, dim, checked_number(alpha, input.dtype))


@update(
    tensors=3, name="index_copy", rows=True, planned=True,
    grad={
        "x": lambda g, index, dim: ops.index_fill(g, dim, index, 0),
        "source": lambda g, index, source_shape, dim: ops.reshape(index_select_op(g, index, dim), source_shape),
    },
    batch=by_rows("scatter"),
    tangent=linear("x", "source"),
)  # fmt: skip
def index_copy_op(backend: Any, x: Any, index: Any, source: Any, dim: int) -> None:
    rows, index, source = _as_rows(x, index, source)
    size = rows.shape[dim]
    bad = kernels.first_outside(backend, index, 0, size, noted=True)
    if bad is not None:
        raise IndexError(f"index_copy_(): index {bad} is out of bounds for dimension {dim} with size {size}")
    kernels.update_rows(backend, rows, dim, index, source, "set")


@updates()
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Any:
    """Rows of `source` written to the rows of the input that an index names.

    >>> import flambeau as torch
    >>> torch.zeros(3).index_copy(0, torch.tensor([2]), torch.tensor([5.0]))
    tensor([0., 0., 5.])
    """
    dim = _row_index("index_copy_", input, dim, index)
    if index.dtype is not int64:
        raise RuntimeError(f"index_copy_(): Expected a long tensor for index, but got {type_name(index.dtype)}")
    if input.dtype is not source.dtype:
        raise RuntimeError(
            f"index_copy_(): self and source expected to have the same dtype, got {type_name(input.dtype)} and {type_name(source.dtype)}"
        )
    _row_shapes("index_copy_", input, dim, index, source, copies=True)
    return index_copy_op, (input, index, source, dim)


def _of_fill(g: Tensor, index: Tensor, dim: int) -> Tensor:
    """Every row counts once, however often it was named."""
    if not g._array.ndim:
        return g
    named = ops.index_fill(zeros((g._array.shape[dim],), bool_, g._k), 0, index, True)
    return ops.sum(ops.where(ops.reshape(named, (-1, *[1] * (g._array.ndim - 1 - dim))), g, 0))


@update(
    tensors=3, name="index_fill", apart=1, expanded="index_fill_",
    backward_name=lambda node: f"IndexFillBackward{0 if node.edges[2] is None else 1}",
    grad={
        "x": lambda g, index, dim: ops.index_fill(g, dim, index, 0),
        "value": lambda g, index, dim: _of_fill(g, index, dim),
    },
    batch=by_rows("scatter"),
)  # fmt: skip
def index_fill_op(backend: Any, x: Any, index: Any, value: Any, dim: int) -> None:
    rows, index, _ = _as_rows(x, index)
    size = rows.shape[dim]
    bad = kernels.first_outside(backend, index, -size, size, noted=True)
    if bad is not None:
        raise IndexError(f"index {bad} is out of bounds for dimension {dim} with size {size}")
    kernels.update_rows(backend, rows, dim, index, value, "set", True)


@updates()
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Any:
    """The rows that an index names, filled with a number or 0-d tensor.

    >>> import flambeau as torch
    >>> torch.zeros(3).index_fill(0, torch.tensor([0, 2]), 7.0)
    tensor([7., 0., 7.])
    """
    dim = _row_index("index_fill", input, dim, index, RuntimeError)
    if index.dtype is not int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    given = value.dtype.category if isinstance(value, Tensor) else scalar_dtype(value).category
    if given == COMPLEX and input.dtype.category != COMPLEX:
        raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")
    if isinstance(value, Tensor):
        if value._array.ndim:
            raise RuntimeError(
                f"index_fill_ only supports a 0-dimensional value tensor, got {value._array.ndim} dimension(s)"
            )
        value = value if value.dtype is input.dtype else fitting(value, input.dtype)
    else:
        value = finished(checked_array(value, input.dtype), input.dtype, 0)
    return index_fill_op, (input, index, value, dim)


SCHEMAS = """
index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor
index_select(Tensor self, int dim, Tensor index) -> Tensor
index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor
index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor  # autocast=widest
index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor
index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor
"""
