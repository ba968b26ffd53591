"""Along one dimension: gather and scatter with an index for every element."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..._autograd.node import Node
from ..._core.dtypes import BOOL, COMPLEX, INTEGER, bool_, dtype, float32, from_numpy_dtype, int32, int64
from ..._core.sizes import wrap_dim
from ..._core.state import local
from ..._tensor import Tensor, wrap
from .. import registry
from ..making.factory import finished
from ..records.batching import along
from ..records.casting import cast_array, checked_array
from ..records.casting import write as write_array
from ..records.out import check_out_dtype
from ..records.primitive import primitive
from ..records.rewriting import Stale
from ..records.rules import not_implemented
from ..records.tangents import linear
from ..records.update import grown, into_zeros, update, updates
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
    wide, src = (x, src) if how == "set" else accumulated(x, src)
    bad = kernels.scatter_where_valid(backend, wide, dim, index, src, how)
    if bad is not None:
        raise RuntimeError(f"index {bad} is out of bounds for dimension {dim} with size {_extent(x, dim)}")
    if wide is not x:
        write_array(x, wide, from_numpy_dtype(x.dtype))


def accumulated(x: Any, src: Any) -> tuple[Any, Any]:
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
    wide, src = (x, src) if rows else accumulated(x, src)
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


SCHEMAS = """
gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor
scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor
scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor
scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor
scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor
scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor  # autocast=cuda:widest
scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor
"""
