"""Along one dimension: gather and scatter with an index for every element, index_select and its relatives with an
index for every row."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..._autograd.node import Node
from ..._core.dtypes import (
    BOOL,
    COMPLEX,
    INTEGER,
    bool_,
    dtype,
    float32,
    from_numpy_dtype,
    int32,
    int64,
    scalar_dtype,
)
from ..._core.sizes import wrap_dim
from ..._core.state import local
from ..._tensor import Tensor, wrap
from .. import registry
from ..basic import zeros
from ..making.factory import finished
from ..records.batched_places import by_rows, selected
from ..records.batching import along
from ..records.casting import cast_array, checked_array, checked_number, number_array
from ..records.casting import write as write_array
from ..records.out import check_out_dtype
from ..records.primitive import primitive
from ..records.refusals import refusal
from ..records.rewriting import Stale
from ..records.rules import not_implemented, type_name
from ..records.shape_rules import dtype_of
from ..records.tangents import linear
from ..records.update import fitting, grown, into_zeros, update, updates
from ..records.writable import check_writable
from ..registry import ops, public
from . import index_kernels as kernels

# -- checks ------------------------------------------------------------------------------------------------------


def _extent(x: Any, dim: int) -> int:
    return x.shape[dim] if x.ndim else 1


def check_index(
    backend: Any, x: Any, index: Any, dim: int, error: type[Exception] = RuntimeError, text: str = "", noted: bool = False
) -> None:  # fmt: skip
    """Raises if an index along `dim` is out of range; indices do not count from the end here."""
    size = _extent(x, dim)
    bad = kernels.first_outside(backend, index, 0, size, noted)
    if bad is not None:
        raise error(text or f"index {bad} is out of bounds for dimension {dim} with size {size}")


def _write(backend: Any, x: Any, index: Any, src: Any, dim: int, how: str) -> None:
    wide, src = (x, src) if how == "set" else _accumulated(x, src)
    bad = kernels.scatter_where_valid(backend, wide, dim, index, src, how)
    if bad is not None:
        raise RuntimeError(f"index {bad} is out of bounds for dimension {dim} with size {_extent(x, dim)}")
    if wide is not x:
        write_array(x, wide, from_numpy_dtype(x.dtype))


def _accumulated(x: Any, src: Any) -> tuple[Any, Any]:
    """The arrays in which elements are added up or multiplied: in float32 for half precision."""
    if x.dtype.itemsize == 2 and x.dtype.kind not in "iu":
        return cast_array(x, float32), cast_array(src, float32)
    return x, src


def _element_index(name: str, input: Tensor, dim: int, index: Tensor, src: Tensor | None = None) -> int:
    """Checks shapes and dtypes of an index with an entry for every element; the dimension from the front."""
    shape, size = input._array.shape, index._array.shape
    if dim.__class__ is not int:
        dim = wrap_dim(dim, len(shape))
    if index.dtype is not int64 and index.dtype is not int32 and index._array.size:
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    if src is None:
        return _element_dim(shape, size, None, dim)
    if src.dtype is not input.dtype:
        raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")
    return _element_dim(shape, size, src._array.shape, dim)


@functools.lru_cache(1024)
def _element_dim(shape: Any, size: Any, source: Any, dim: int) -> int:
    """The dimension from the front, for an index of shape `size` that fits the others'."""
    dim = wrap_dim(dim, len(shape))
    if 0 in size:
        return dim
    shape, size = shape or (1,), size or (1,)
    if len(shape) != len(size):
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    if source is not None:
        source = source or (1,)
        if len(source) != len(size):
            raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    if any(n > m and d != dim for d, (n, m) in enumerate(zip(size, shape))) or (
        source is not None and any(n > m for n, m in zip(size, source))
    ):
        also = "" if source is None else f" and to be no larger than src {list(source)}"
        raise RuntimeError(
            f"Expected index {list(size)} to be no larger than self {list(shape)} apart from dimension {dim}{also}"
        )
    return dim


def _row_index(name: str, x: Tensor, dim: int, index: Tensor, error: type[Exception] = IndexError) -> int:
    """Checks an index with an entry for every row."""
    dim = wrap_dim(dim, x._array.ndim)
    if index._array.ndim > 1:
        raise error(f"{name}(): Index is supposed to be a vector, but got dim: {index._array.ndim}")
    return dim


# -- an index for every element ------------------------------------------------------------------------------------


@primitive(
    tensors=2, name="gather", meta=lambda x, index, dim: (index.shape, from_numpy_dtype(x.dtype)),
    grad={"x": lambda g, x_shape, index, dim: into_zeros(scatter_add_op, x_shape, g, index, g, dim)},
    batch=along,
    tangent=linear("x"),
)  # fmt: skip
def gather_op(backend: Any, x: Any, index: Any, dim: int) -> Any:
    made, bad = kernels.gather(backend, x, dim, index)
    if bad is not None:
        raise RuntimeError(f"index {bad} is out of bounds for dimension {dim} with size {_extent(x, dim)}")
    return made


@public(planned=True)
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False, out: Tensor | None = None) -> Tensor:
    """Elements picked along a dimension: out[i][j] = input[i][index[i][j]] for dim=1.

    >>> import flambeau as torch
    >>> torch.gather(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([[0, 0], [1, 0]]))
    tensor([[1, 1],
            [4, 3]])
    """
    if out is not None:
        if isinstance(out, Tensor):
            check_out_dtype(out, input.dtype)
        return registry.into_out(out, gather, (input, dim, index), {})
    return gather_op(input, index, _element_index("gather", input, dim, index))


def _put_zero(g: Tensor, index: Tensor, dim: int) -> Tensor:
    return scatter_op(g, index, wrap(np.zeros((), g.dtype.numpy), g.dtype), dim)


def _of_src(g: Tensor, index: Tensor, shape: Any, dim: int) -> Tensor:
    return (
        grown(gather_op(g, index, dim), shape) if shape or not index._array.ndim else ops.sum(gather_op(g, index, dim))
    )


@update(
    tensors=3, name="scatter", rows=True, planned=True,  # a number has no dimensions, where an index has some
    backward_name=lambda node: f"ScatterBackward{int(node.info[2][0] == () != node.info[1][0])}",
    grad={
        "x": lambda g, index, dim: _put_zero(g, index, dim),
        "src": lambda g, index, src_shape, dim: _of_src(g, index, src_shape, dim),
    },
    batch=along,
    tangent=linear("x", "src"),
)  # fmt: skip
def scatter_op(backend: Any, x: Any, index: Any, src: Any, dim: int) -> None:
    _write(backend, x, index, src, dim, "set")


@update(
    tensors=3, name="scatter_add", rows=True, planned=True,
    grad={"x": lambda g: g, "src": lambda g, index, src_shape, dim: _of_src(g, index, src_shape, dim)},
    batch=along,
    tangent=linear("x", "src"),
)  # fmt: skip
def scatter_add_op(backend: Any, x: Any, index: Any, src: Any, dim: int) -> None:
    _write(backend, x, index, src, dim, "add")


@update(tensors=3, name="scatter_combine", rows=True, batch=along)
def scatter_combine_op(backend: Any, x: Any, index: Any, src: Any, dim: int, how: str) -> None:
    _write(backend, x, index, src, dim, how)


@updates()
def scatter(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Any:
    """Elements written along a dimension: out[i][index[i][j]] = src[i][j] for dim=1; `src` may be a number.

    >>> import flambeau as torch
    >>> torch.zeros(2, 3).scatter(1, torch.tensor([[2], [0]]), 1.0)
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    given = value if src is None else src
    if given is None:
        raise TypeError("scatter() missing 1 required positional argument: 'src' or 'value'")
    src = given if isinstance(given, Tensor) else None
    dim = _element_index("scatter", input, dim, index, src)
    if src is None:
        src = finished(checked_array(given, input.dtype), input.dtype, 0)
    if reduce is None:
        return scatter_op, (input, index, src, dim)
    if reduce not in ("add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    return scatter_combine_op, (input, index, src, dim, reduce)


@updates()
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Any:
    """Elements added along a dimension: out[i][index[i][j]] += src[i][j] for dim=1.

    >>> import flambeau as torch
    >>> torch.zeros(3).scatter_add(0, torch.tensor([0, 2, 2]), torch.tensor([1.0, 2.0, 3.0]))
    tensor([1., 0., 5.])
    """
    return scatter_add_op, (input, index, src, _element_index("scatter_add", input, dim, index, src))


# -- reductions ----------------------------------------------------------------------------------------------------

_HOW = {"sum": "add", "mean": "add", "prod": "multiply", "amax": "maximum", "amin": "minimum"}


def _neutral(reduce: str, d: dtype) -> Any:
    """The number that a reduction starts from."""
    if reduce in ("sum", "mean", "prod"):
        return int(reduce == "prod")
    if d.category == BOOL:
        return reduce == "amin"
    if d.category == INTEGER:
        limits = np.iinfo(d.numpy)
        return limits.min if reduce == "amax" else limits.max
    return -np.inf if reduce == "amax" else np.inf


def _divide(backend: Any, x: Any, dim: int, index: Any, include_self: bool) -> None:
    xp = backend.xp
    count = xp.full(x.shape, int(include_self), np.int64)
    kernels.scatter(backend, count, dim, index, xp.asarray(np.int64(1)), "add")
    xp.maximum(count, 1, out=count)
    x[...] = xp.floor_divide(x, count) if x.dtype.kind in "iub" else x / count.astype(x.real.dtype)


def _reduce_gradients(
    g: Any, x: Any, index: Any, src: Any, dim: Any, reduce: Any, include_self: Any, out: Any, needs: Any
) -> list[Any]:
    """PyTorch's derivatives: equal shares among several extrema, the product of the others for prod."""
    if reduce in ("sum", "mean"):
        if reduce == "mean":
            count = ops.ones_like(g) if include_self else ops.zeros_like(g)
            count = ops.scatter_add(count, dim, index, ops.ones_like(src))
            g = g / ops.clamp(count, min=1)
        own, given = g, gather_op(g, index, dim)
    elif reduce == "prod":
        own, given = _product_gradients(g, x, index, src, dim, include_self)
    else:
        from_self = ops.to_dtype(ops.eq(x, out), g.dtype)
        from_src = ops.to_dtype(ops.eq(src, gather_op(out, index, dim)), g.dtype)
        share = g / ops.clamp(scatter_add_op(from_self, index, from_src, dim), min=1)
        own, given = share * from_self, gather_op(share, index, dim) * from_src
    if not include_self:
        own = _put_zero(own, index, dim)
    return [own if needs[0] else None, None, grown(given, src._array.shape) if needs[2] else None]


def _product_gradients(
    g: Tensor, x: Tensor, index: Tensor, src: Tensor, dim: int, include_self: bool
) -> tuple[Tensor, Tensor]:
    """g times the product of the other factors; with one zero among them only that one has a gradient."""
    x_zero, src_zero = ops.eq(x, 0), ops.eq(src, 0)
    product = scatter_reduce_op(
        ops.masked_fill(x, x_zero, 1), index, ops.masked_fill(src, src_zero, 1), dim, "prod", include_self, False
    )
    zeros = ops.to_dtype(x_zero, int64) if include_self else ops.zeros_like(x, dtype=int64)
    zeros = scatter_add_op(zeros, index, ops.to_dtype(src_zero, int64), dim)

    def share(value: Tensor, is_zero: Tensor, g: Tensor, product: Tensor, zeros: Tensor) -> Tensor:
        others = ops.where(is_zero, product, product / ops.masked_fill(ops.conj(value), is_zero, 1))
        return ops.where(ops.eq(zeros, ops.to_dtype(is_zero, int64)), g * others, 0)

    picked = [gather_op(t, index, dim) for t in (g, product, zeros)]
    gradients = share(x, x_zero, g, product, zeros), share(src, src_zero, *picked)
    if local.grad and bool(ops.any(ops.gt(zeros, 1))):
        for t in gradients:
            if t._edge is not None:
                t._edge = (Node(Stale(_SEVERAL_ZEROS), (t._edge,)), 0)
    return gradients


_SEVERAL_ZEROS = (
    "Double backward is unsupported for scatter_reduce and index_reduce by 'prod' when several zeros go to the same place: the "
    "derivative of each is the product without the others, which is not kept"
)


@update(
    tensors=3, name="scatter_reduce", rows=True, grad=_reduce_gradients,
    backward_name=lambda node: "IndexReduceBackward0" if node.saved and node.saved[6] else "ScatterReduceBackward0",
    batch=along,
)  # fmt: skip
def scatter_reduce_op(
    backend: Any, x: Any, index: Any, src: Any, dim: int, reduce: str, include_self: bool, rows: bool
) -> None:
    """`rows`: half precision is rounded after every row, as PyTorch does it in index_reduce."""
    check_index(backend, x, index, dim)
    xp = backend.xp
    wide, src = (x, src) if rows else _accumulated(x, src)
    if not include_self:
        start = checked_array(_neutral(reduce, from_numpy_dtype(wide.dtype)), from_numpy_dtype(wide.dtype))
        kernels.scatter(backend, wide, dim, index, xp.asarray(start), "set")
    kernels.scatter(backend, wide, dim, index, src, _HOW[reduce])
    if reduce == "mean":
        _divide(backend, wide, dim, index, include_self)
    if wide is not x:
        write_array(x, wide, from_numpy_dtype(x.dtype))


@updates()
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    """Elements reduced along a dimension into the places an index names: sum, prod, mean, amax or amin.

    >>> import flambeau as torch
    >>> torch.zeros(2).scatter_reduce(0, torch.tensor([0, 0, 1]), torch.tensor([1.0, 5.0, 2.0]), "amax")
    tensor([5., 2.])
    """
    dim = _element_index("scatter_reduce", input, dim, index, src)
    if reduce not in _HOW:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if (input.dtype is bool_ and reduce == "mean") or (input.dtype.category == COMPLEX and reduce[0] == "a"):
        raise not_implemented(f"scatter_gather_tensor_cpu_reduce_{reduce}", input.dtype)
    if reduce == "sum" and include_self:
        return scatter_add_op, (input, index, src, dim)
    return scatter_reduce_op, (input, index, src, dim, reduce, include_self, False)


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


def _row_shapes(
    name: str, input: Tensor, dim: int, index: Tensor, source: Tensor, error: type[Exception] = RuntimeError
) -> None:
    """Checks that `source` has a row for every index, and rows like those of the input."""
    count = index._array.size
    shape, given = input._array.shape, source._array.shape
    have = given[dim] if given else 1
    if count != have:
        raise error(
            f"{name}(): Number of indices ({count}) should be equal to source.size(dim): ({have}), for dim: {dim}"
        )
    alike = len(shape) == len(given) or (len(shape) <= 1 and len(given) <= 1)
    if not alike or shape[:dim] != given[:dim] or shape[dim + 1 :] != given[dim + 1 :]:
        raise error(
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
        wide, source = _accumulated(rows, source)
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
    _row_shapes("index_copy_", input, dim, index, source, IndexError)
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
gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor
scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor
scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor
scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor
scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor
scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor  # autocast=cuda:widest
scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor
index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor
index_select(Tensor self, int dim, Tensor index) -> Tensor
index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor
index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor  # autocast=widest
index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor
index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor
"""
