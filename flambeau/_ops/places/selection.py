"""Choosing elements by condition and by position: where, masks, nonzero, take and put."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._backend.cpu import cpu
from ..._core.config import nondeterministic
from ..._core.dtypes import BY_NUMPY, INTEGER, bool_, int64, uint8  # fmt: skip
from ..._core.sizes import broadcast_shapes, wrap_dim
from ..._core.state import CUDA, META
from ..._core.steps import only_shapes, tell
from ..._errors.frames import warn_user
from ..._kernel.places.elements import nonzero_pairs, nonzero_places
from ..._tensor import Tensor, wrap
from ..making.factory import finished, number_of
from ..records.batched_places import filled_where, marked, put_flat, taken
from ..records.batching import shaped_by_values
from ..records.casting import broadcast_error, checked_array, checked_number
from ..records.declare import pointwise
from ..records.primitive import primitive
from ..records.rules import ring, type_name
from ..records.shape_rules import data_dependent
from ..records.tangents import linear
from ..records.update import fitting, grown, into_zeros, update, updates
from ..records.writable import warn_of_expanded
from ..registry import _overridable as overridable
from ..registry import methods, ops, public
from . import device_marks
from . import index_kernels as kernels
from .scatter import gather_op

# -- where and masks -----------------------------------------------------------------------------------------------

where_op = pointwise(
    "where", lambda m, condition, x, y: m.where(condition, x, y), ring, masks=("condition",), public=False,
    grad={
        "x": lambda m, g, condition: m.where(condition, g, 0),
        "y": lambda m, g, condition: m.where(condition, 0, g),
    },
)  # fmt: skip

masked_fill_op = pointwise(
    "masked_fill", lambda m, x, mask, value: m.where(mask, value, x), ring, masks=("mask",), public=False, rows=True,
    backward_name=lambda node: f"MaskedFillBackward{0 if node.edges[2] is None else 1}",
    grad={
        "x": lambda m, g, mask: m.where(mask, 0, g),
        "value": lambda m, g, mask: m.where(mask, g, 0),
    },
)  # fmt: skip


@public(out="exact", method=False, planned=True)
def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """Elements of `input` where the condition holds, of `other` elsewhere; alone, the indices where it holds.

    >>> import flambeau as torch
    >>> torch.where(torch.tensor([True, False]), torch.tensor([1, 2]), 0)
    tensor([1, 0])
    """
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    if input is None or other is None:
        raise TypeError("where(): expected a condition alone, or a condition with both input and other")
    if condition.dtype is not bool_:
        if condition.dtype is not uint8:
            raise RuntimeError(f"where expected condition to be a boolean tensor, got {type_name(condition.dtype)}")
        warn_user("where with a uint8 condition is deprecated, use a bool condition instead.")
    if not isinstance(input, Tensor):
        input = _one_element(input, input, other)
    if not isinstance(other, Tensor):
        other = _one_element(other, input, other)
    return where_op(condition, input, other)


def _one_element(number: Any, input: Any, other: Any) -> Any:
    """A number as `where` takes it: as a single element of the dtype of the result."""
    if (number.__class__ is float or number.__class__ is int) and -128 <= number < 128:
        return number
    return checked_number(number, where_op.common((None, input, other)), single=True)


def _where_method(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """Elements of this tensor where the condition holds, of `other` elsewhere."""
    return where(condition, self, other)


_where_method.__name__ = _where_method.__qualname__ = "where"
methods["where"] = overridable(_where_method)


def _need_mask(name: str, mask: Any) -> None:
    if mask.dtype is not bool_:
        raise RuntimeError(f"{name} only supports boolean masks, but got mask with dtype {type_name(mask.dtype)}")


def _fill_expanded(input: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    """`masked_fill_` where elements share memory: one of them that the mask names is enough to fill them all."""
    warn_of_expanded("masked_fill_")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ops.index_put_(input, (ops.expand_as(mask, input),), value)


@updates(out=True, expanded=_fill_expanded)
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Any:
    """A copy with a number, or a 0-d tensor, wherever the mask holds.

    >>> import flambeau as torch
    >>> torch.tensor([1.0, 2.0]).masked_fill(torch.tensor([False, True]), 0.0)
    tensor([1., 0.])
    """
    _need_mask("masked_fill_", mask)
    d = input.dtype
    if isinstance(value, Tensor):
        if value._array.ndim:
            raise RuntimeError(
                f"masked_fill_ only supports a 0-dimensional value tensor, got {value._array.ndim} dimension(s)"
            )
        value = value if value.dtype is d else fitting(value, d)
        if value._storage is not None and value._storage is input._storage:
            value = ops.clone(value)  # it is one number, read before anything is written
    else:
        value = finished(checked_array(number_of(value, "masked_fill", "value"), d), d, 0)
    return masked_fill_op, (input, mask, value)


def _taken(g: Tensor, mask: Tensor, shape: Any) -> Tensor:
    """What a source gets back: the elements that a mask has taken from it, in order, then zeros."""
    if mask._k & META:
        only_shapes("masked_scatter")
        return ops.new_empty(g, shape)
    places = ops.reshape(ops.nonzero(ops.reshape(mask, (-1,))), (-1,))  # as many for each sample of a batched cotangent
    return ops.reshape(grown(ops.take(g, places), (math.prod(shape),)), shape)


@update(
    tensors=3, name="masked_scatter", rows=True, apart=0,
    grad={
        "x": lambda g, mask: ops.masked_fill(g, mask, 0),
        "source": lambda g, mask, source_shape: _taken(g, mask, source_shape),
    },
    batch=filled_where,
    tangent=linear("x", "source"),
)  # fmt: skip
def masked_scatter_op(backend: Any, x: Any, mask: Any, source: Any) -> None:
    """`mask` has the shape of x."""
    count = int(np.count_nonzero(mask)) if backend is cpu else device_marks.put(backend, x, mask, source)
    if source.size < count:
        raise RuntimeError(
            f"masked_scatter: Number of elements of source < number of ones in mask ({source.size} < {count})"
        )
    if count and backend is cpu:
        x[mask] = source.reshape(-1)[:count]


@updates()
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Any:
    """A copy with the elements of `source`, in order, in the places where the mask holds.

    >>> import flambeau as torch
    >>> torch.zeros(3).masked_scatter(torch.tensor([True, False, True]), torch.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    _need_mask("masked_scatter_", mask)
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"masked_scatter: expected self and source to have same dtypes, got {type_name(input.dtype)} and {type_name(source.dtype)}"
        )
    input, mask = _expanded(input, mask)
    return masked_scatter_op, (input, mask, source)


def _expanded(input: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    shape = input._array.shape
    if mask._array.shape == shape:
        return input, mask
    try:
        both = broadcast_shapes(shape, mask._array.shape)
    except RuntimeError:
        raise broadcast_error((mask, input)) from None
    return (input if both == shape else ops.expand(input, both)), ops.expand(mask, both)


@primitive(
    meta=data_dependent,
    tensors=2, name="masked_select",
    grad={"x": lambda g, x_shape, mask: into_zeros(masked_scatter_op, x_shape, g, mask, g)},
    batch=marked,
)  # fmt: skip
def masked_select_op(backend: Any, x: Any, mask: Any) -> Any:
    """`mask` has the shape of x."""
    return kernels.select(backend, x, mask)


@public(out="exact")
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where the mask holds, as a vector.

    >>> import flambeau as torch
    >>> torch.masked_select(torch.tensor([1, 2, 3]), torch.tensor([True, False, True]))
    tensor([1, 3])
    """
    if mask.dtype is not bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    return masked_select_op(*_expanded(input, mask))


# -- positions of what is not zero ---------------------------------------------------------------------------------


def _nonzero(backend: Any, x: Any) -> Any:
    """(number of nonzero elements, dimensions) indices, those of one dimension side by side in memory."""
    if backend is not cpu:
        return device_marks.positions(backend, x).T
    if x.ndim == 0:
        return cpu.zeros((int(bool(x)), 0), np.int64)
    if x.ndim == 1:
        return x.nonzero()[0].reshape(1, -1).T
    marks = x if x.dtype == np.bool_ else x != 0
    out = np.empty((x.ndim, np.count_nonzero(marks)), np.int64).T
    if x.ndim == 2:
        cpu.kernel(nonzero_pairs, ("b1", "i64"))(marks, out)
        return out
    first = np.empty(len(out), np.int64) if x.ndim == 3 else out[:, -4]
    four = marks.reshape(math.prod(x.shape[:-3]), *x.shape[-3:])
    cpu.kernel(nonzero_places, ("b1", "i64", "i64"))(four, first, out[:, -3:])
    for dim in range(x.ndim - 4, 0, -1):
        np.divmod(out[:, dim], x.shape[dim], out=(out[:, dim - 1], out[:, dim]))
    return out


nonzero_op = primitive(batch=shaped_by_values, meta=data_dependent, name="nonzero", differentiable=False)(_nonzero)


@primitive(batch=shaped_by_values, meta=data_dependent, name="nonzero_tuple", differentiable=False)
def nonzero_tuple_op(backend: Any, x: Any) -> Any:
    if x.ndim < 2:
        return tuple(kernels.positions(x if x.ndim else x.reshape(1)))
    found = _nonzero(backend, x).T
    return tuple([found[d] for d in range(x.ndim)])


@public(out="exact")
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The indices of the elements that are not zero, as rows of a matrix or (`as_tuple`) a vector for each dimension.

    >>> import flambeau as torch
    >>> torch.nonzero(torch.tensor([0, 5, 0, 7]))
    tensor([[1],
            [3]])
    """
    return nonzero_tuple_op(input) if as_tuple else nonzero_op(input)


@public()
def argwhere(input: Tensor) -> Tensor:
    """The indices of the elements that are not zero, as rows of a matrix.

    >>> import flambeau as torch
    >>> torch.argwhere(torch.tensor([[0, 1]]))
    tensor([[0, 1]])
    """
    return nonzero_op(input)


@public(out=True)
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """`nonzero` cut, or filled up with `fill_value`, to a given number of rows.

    >>> import flambeau as torch
    >>> torch.nonzero_static(torch.tensor([0, 5]), size=2)
    tensor([[ 1],
            [-1]])
    """
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer, got {size}")
    if input._k & META:
        only_shapes("nonzero_static")
        return ops.t(ops.new_empty(input, (input._array.ndim, size), dtype=int64))
    found = nonzero_op(input)
    made = ops.new_full(found, (size, input._array.ndim), fill_value)
    tell("elements_read", found)
    made._array[: len(found._array)] = found._array[:size]
    return made


# -- positions in the flattened tensor -----------------------------------------------------------------------------


def _flat_check(backend: Any, name: str, x: Any, index: Any) -> None:
    if x.size == 0 and index.size:
        raise IndexError(f"{name}(): tried to {name} from an empty tensor")
    bad = kernels.first_outside(backend, index, -x.size, x.size)
    if bad is not None:
        raise IndexError(f"out of range: tried to access index {bad} on a tensor of {x.size} elements.")


@primitive(
    tensors=2, name="take", meta=lambda x, index: (index.shape, BY_NUMPY[x.dtype]),
    grad={"x": lambda g, x_shape, index: into_zeros(put_op, x_shape, g, index, g, True)},
    batch=taken,
    tangent=linear("x"),
)  # fmt: skip
def take_op(backend: Any, x: Any, index: Any) -> Any:
    _flat_check(backend, "take", x, index)
    if index.size == 0:
        return backend.xp.empty(index.shape, x.dtype)
    return kernels.take_rows(backend, x.reshape(-1), index.reshape(-1), 0, True).reshape(index.shape)


@public(out="exact", planned=True)
def take(input: Tensor, index: Tensor) -> Tensor:
    """Elements of the flattened input at the given positions.

    >>> import flambeau as torch
    >>> torch.take(torch.tensor([[4, 3], [1, 8]]), torch.tensor([0, 3]))
    tensor([4, 8])
    """
    _need_long("take", index)
    return take_op(input, index)


def _need_long(name: str, index: Any) -> None:
    if index.dtype is not int64:
        raise RuntimeError(f"{name}(): Expected a long tensor for index, but got {type_name(index.dtype)}")


def _of_put(g: Tensor, index: Tensor, accumulate: bool) -> Tensor:
    if accumulate:
        return g
    zeros = wrap(np.zeros(index._array.shape, g.dtype.numpy), g.dtype)
    return put_op(g, index, zeros if not g._k & (CUDA | META) else ops.zeros_like(index, dtype=g.dtype), False)


@update(
    tensors=3, name="put",
    grad={
        "x": lambda g, index, accumulate: _of_put(g, index, accumulate),
        "source": lambda g, index, source_shape: ops.reshape(take_op(g, index), source_shape),
    },
    batch=put_flat,
    tangent=linear("x", "source"),
)  # fmt: skip
def put_op(backend: Any, x: Any, index: Any, source: Any, accumulate: bool) -> None:
    _flat_check(backend, "put", x, index)
    if index.size == 0:
        return
    flat = index.reshape(-1)
    flat = flat + (flat < 0) * x.size
    target = x.reshape(-1)
    kernels.update_rows(backend, target, 0, flat, source.reshape(-1), "add" if accumulate else "set")
    if not x.flags.c_contiguous:  # it was a copy
        x[...] = target.reshape(x.shape)


@updates(out=False)
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Any:
    """A copy with elements of `source` at positions of the flattened input.

    >>> import flambeau as torch
    >>> torch.zeros(2, 2).put(torch.tensor([3]), torch.tensor([5.0]))
    tensor([[0., 0.],
            [0., 5.]])
    """
    if not accumulate:
        nondeterministic("put_")
    _need_long("put_", index)
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"put_(): self and source expected to have the same dtype, got {type_name(input.dtype)} and {type_name(source.dtype)}"
        )
    if source._array.size != index._array.size:
        raise IndexError(
            f"put_(): Expected source and index to have the same number of elements, got {source._array.size} "
            f"and {index._array.size}"
        )
    return put_op, (input, index, source, bool(accumulate))


@public(out=True, planned=True)
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """Elements picked along a dimension; input and indices broadcast. Without `dim` both count as flat.

    >>> import flambeau as torch
    >>> x = torch.tensor([[3, 1], [2, 4]])
    >>> torch.take_along_dim(x, torch.tensor([[1], [0]]), dim=1)
    tensor([[1],
            [2]])
    """
    if indices.dtype is not int64:
        raise RuntimeError(
            f"torch.take_along_dim(): dtype of indices should be Long but got {type_name(indices.dtype)}"
        )
    if dim is None:
        return take_along_dim(ops.reshape(input, (-1,)), ops.reshape(indices, (-1,)), 0)
    a, b = input._array.ndim, indices._array.ndim
    if a != b:
        raise RuntimeError(
            f"torch.take_along_dim(): input and indices should have the same number of dimensions, got {a} and {b}"
        )
    dim = wrap_dim(dim, a)
    size = input._array.shape[dim] if a else 1
    if size:
        indices = ops.remainder(indices, size)
    if a:
        shape, picked = list(input._array.shape), list(indices._array.shape)
        n, k = shape[dim], picked[dim]
        shape[dim] = picked[dim] = 1
        both = list(broadcast_shapes(shape, picked))
        input = ops.expand(input, (*both[:dim], n, *both[dim + 1 :]))
        indices = ops.expand(indices, (*both[:dim], k, *both[dim + 1 :]))
    return gather_op(input, indices, dim)


@public(method=False)
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Positions in a flattened tensor as one index for each dimension of `shape`.

    >>> import flambeau as torch
    >>> torch.unravel_index(torch.tensor([3, 5]), (2, 3))
    (tensor([1, 1]), tensor([0, 2]))
    """
    if not isinstance(indices, Tensor):
        raise TypeError(f"expected 'indices' to be a Tensor, but got {type(indices).__name__}")
    if indices.dtype.category != INTEGER:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if not isinstance(shape, (int, Sequence)):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape).__name__}")
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    for n in shape:
        if not isinstance(n, int):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(n).__name__}")
        if n < 0:
            raise ValueError(f"'shape' cannot have negative values, but got {shape}")
    steps = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    where: Any = {"dtype": int64, "device": indices.device}
    whole = ops.floor_divide(ops.unsqueeze(indices, -1), ops.tensor(steps, **where))
    return ops.unbind(ops.remainder(whole, ops.tensor(shape, **where)), -1)


SCHEMAS = """
where.self(Tensor condition, Tensor self, Tensor other) -> Tensor
where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor
where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor
where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor
where(Tensor condition) -> Tensor[]
masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor
masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor
masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor
masked_select(Tensor self, Tensor mask) -> Tensor
nonzero(Tensor self) -> Tensor  # parsed
argwhere(Tensor self) -> Tensor
nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor  # whole
take(Tensor self, Tensor index) -> Tensor
put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor
take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor
unravel_index  # python, composite
"""
