"""Reductions over dimensions: sums, means, products, truth values, and counts."""

from __future__ import annotations

import builtins
import math
from typing import Any

from ..._backend import threads
from ..._core.dtypes import COMPLEX, FLOATING, bool_, complex32, complex64, complex128, dtype, float64, int64, uint8
from ..._core.sizes import size_argument, wrap_dims
from ..._kernel.folds.rows import Rows
from ..._tensor import Tensor
from ..basic import either
from ..records.batching import along
from ..records.casting import cast_array
from ..records.primitive import primitive
from ..records.rules import not_implemented, type_name
from ..records.tangents import linear
from ..registry import ops, out_dtypes, public, relabel
from .folding import fold_array, reduced_shape
from .row_gradients import along_rows


def restore_dims(g: Tensor, dims: Any, keepdim: bool) -> Tensor:
    """A reduced tensor with its reduced dimensions back, at extent 1."""
    if not keepdim:
        for d in sorted(dims):
            g = ops.unsqueeze(g, d)
    return g


def expand_back(g: Tensor, shape: Any, dims: Any, keepdim: bool) -> Tensor:
    """The gradient of a sum: every reduced element gets the same."""
    if not g._array.ndim and shape:  # of everything
        return ops.expand(g, *shape)
    return ops.expand(restore_dims(g, dims, keepdim), shape)


def require_bool(name: str, argument: str, value: Any) -> None:
    if value is not True and value is not False:
        raise TypeError(f"{name}(): argument '{argument}' must be bool, not {type(value).__name__}")


def _numbered(name: str) -> Any:
    """PyTorch's names of a derivative: number 0 over everything, 1 along dimensions."""

    def named(node: Any) -> str:
        kept = node.saved
        whole = kept is None or (len(kept[1]) == len(node.info[0][0]) and not kept[2])
        return f"{name}Backward{0 if whole else 1}"

    return named


def shape_rule(result: Any) -> Any:
    return lambda x, dims, keepdim, *rest: (reduced_shape(x.shape, dims, keepdim), result(x, *rest))


# -- sums --------------------------------------------------------------------------------------------------------


@primitive(
    grad={"x": lambda g, x_shape, dims, keepdim: expand_back(g, x_shape, dims, keepdim)}, name="sum",
    meta=shape_rule(lambda x, d: d), backward_name=_numbered("Sum"),
    batch=along,
    tangent=linear("x"),
)  # fmt: skip
def sum_op(backend: Any, x: Any, dims: tuple[int, ...], keepdim: bool, d: dtype) -> Any:
    return fold_array(backend, x, dims, keepdim, "sum", d)


def _sum_input(name: str, input: Tensor, d: dtype | None) -> tuple[Tensor, dtype]:
    """The tensor to be summed and the dtype of the sum: integers are summed as int64."""
    own = input.dtype
    if d is None:
        d = own if own.category >= FLOATING else int64
    elif d.category != own.category or (
        d is not own and d in (float64, complex128)
    ):  # who asks for it wants its precision
        input = ops.to_dtype(input, d)
    if not own.code or not d.code:
        raise not_implemented(f"{name}_cpu", own if not own.code else d)
    return input, d


@public(out="dtype", planned=True)
def sum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Tensor:
    """The sum of elements over dimensions (all by default).

    >>> import flambeau as torch
    >>> torch.sum(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=0)
    tensor([4., 6.])
    """
    input, d = _sum_input("sum", input, dtype)
    require_bool("sum", "keepdim", keepdim)
    out = sum_op(input, wrap_dims(dim, input._array.ndim), keepdim, d)
    return out if dim is None else relabel(out, "SumBackward1")


@primitive(
    grad={"x": lambda g, x, dims, keepdim: expand_back(g, x.shape, dims, keepdim) * ~ops.isnan(x)}, name="nansum",
    meta=shape_rule(lambda x, d: d),
    batch=along,
)  # fmt: skip
def nansum_op(backend: Any, x: Any, dims: tuple[int, ...], keepdim: bool, d: dtype) -> Any:
    return fold_array(backend, x, dims, keepdim, "nansum", d)


@public(out=True, planned=True)
def nansum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Tensor:
    """The sum of elements over dimensions, with NaN as zero.

    >>> import flambeau as torch
    >>> torch.nansum(torch.tensor([1.0, float("nan"), 2.0]))
    tensor(3.)
    """
    input, d = _sum_input("nansum", input, dtype)
    if input.dtype.category == COMPLEX:
        raise RuntimeError("nansum on CPU does not support complex inputs")
    dims = wrap_dims(dim, input._array.ndim)
    return (nansum_op if input.dtype.category == FLOATING else sum_op)(input, dims, keepdim, d)


@primitive(
    grad={"x": lambda g, x_shape, dims, keepdim: _share_back(g, x_shape, dims, keepdim, _count(x_shape, dims))},
    name="mean", meta=shape_rule(lambda x, d: d), backward_name=_numbered("Mean"),
    batch=along,
    tangent=linear("x"),
)  # fmt: skip
def mean_op(backend: Any, x: Any, dims: tuple[int, ...], keepdim: bool, d: dtype) -> Any:
    return fold_array(backend, x, dims, keepdim, "sum", d, "mean")


def _share_back(g: Tensor, shape: Any, dims: Any, keepdim: bool, count: int) -> Tensor:
    """The gradient of a mean; a large one is divided before it is spread."""
    if threads.pay(count * g._array.size):
        return ops.contiguous(expand_back(g / count, shape, dims, keepdim))
    return expand_back(g, shape, dims, keepdim) / count


def _count(shape: Any, dims: Any) -> int:
    return math.prod(shape[d] for d in dims)


@public(out=True, planned=True)
def mean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Tensor:
    """The mean of elements over dimensions (all by default).

    >>> import flambeau as torch
    >>> torch.mean(torch.tensor([1.0, 2.0, 6.0]))
    tensor(3.)
    """
    d = dtype or input.dtype
    if d.category < FLOATING:
        which = "Input" if dtype is None else "Optional"
        raise RuntimeError(
            f"mean(): could not infer output dtype: {which} dtype must be floating point or complex, got {type_name(d)}"
        )
    input, d = _sum_input("mean", input, d)
    out = mean_op(input, wrap_dims(dim, input._array.ndim), keepdim, d)
    return out if dim is None else relabel(out, "MeanBackward1")


@public(out=True, planned=True)
def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Tensor:
    """The mean over dimensions of the elements that are not NaN.

    >>> import flambeau as torch
    >>> torch.nanmean(torch.tensor([1.0, float("nan"), 2.0]))
    tensor(1.5000)
    """
    if input.dtype.category < FLOATING:
        raise RuntimeError(
            f"nanmean(): expected input to have floating point or complex dtype but got {type_name(input.dtype)}"
        )
    if dtype is not None and dtype.category < FLOATING:
        raise RuntimeError(
            "nanmean(): could not infer output dtype. Optional dtype must be either a floating point or complex dtype. "
            f"Got: {type_name(dtype)}"
        )
    own = ops.detach(input)
    factor = sum(ops.eq(own, own), dim, keepdim)
    return nansum(input, dim, keepdim, dtype=dtype) / factor


@public()
def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """The sum over dimensions that gives a tensor of `size`, to which the input's shape must be broadcastable.

    >>> import flambeau as torch
    >>> torch.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
    """
    target, shape = size_argument(size), input._array.shape
    if not target:
        return sum(input)
    lead = len(shape) - len(target)
    if lead < 0 or builtins.any(n not in (1, have) for n, have in zip(target, shape[lead:])):
        raise RuntimeError(f"size {{{list(target)}}} is not expandable to size {{{list(shape)}}}.")
    return ops.sum_to(input, target)


# -- products ----------------------------------------------------------------------------------------------------


def _lone(m: Any, g: Any, out: Any, zeros: Any, product: Any, count: Any) -> tuple[Any]:
    """What a zero gets: the product of the others, if these are none."""
    return (g * m.where(zeros == 1, m.cast(product, g.type), 0.0),)


_OTHER_FACTORS = Rows(
    (("count", lambda m, x, *rest: x == 0.0), ("prod", lambda m, x, *rest: m.where(x == 0.0, 1.0, x))),
    lambda m, x, g, out, lone, count: m.where(x == 0.0, lone, g * (out / x)),
    fixed=2,
    settle=_lone,
)


def _prod_grad(g: Tensor, x: Tensor, out: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """Every factor gets the product of the others; where there is a zero, that cannot be had by division."""
    made = along_rows("prod_gradient", _OTHER_FACTORS, g, x, out, dims)
    if made is not None:
        return made
    g, out = restore_dims(g, dims, keepdim), restore_dims(out, dims, keepdim)
    others = either(ops.any(ops.eq(x, 0)), lambda: _product_of_others(x, dims), lambda: out / x, True)
    return g * ops.conj(others)


def _product_of_others(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    if len(dims) != 1:
        return ops.reshape(_product_of_others(ops.reshape(x, -1), (0,)), x.shape)
    (dim,) = dims
    n = x._array.shape[dim]
    if n < 2:
        return ops.ones_like(x)
    one = ops.ones_like(ops.narrow(x, dim, 0, 1))
    before = ops.cumprod(ops.cat([one, ops.narrow(x, dim, 0, n - 1)], dim), dim)
    after = ops.flip(ops.cumprod(ops.cat([one, ops.flip(ops.narrow(x, dim, 1, n - 1), (dim,))], dim), dim), (dim,))
    return before * after


@primitive(
    grad={"x": _prod_grad}, name="prod", meta=shape_rule(lambda x, d: d), backward_name=_numbered("Prod"), batch=along
)
def prod_op(backend: Any, x: Any, dims: tuple[int, ...], keepdim: bool, d: dtype) -> Any:
    return fold_array(backend, x, dims, keepdim, "prod", d)


@public(out="dtype", planned=True)
def prod(input: Tensor, dim: Any = ..., keepdim: bool = False, *, dtype: dtype | None = None) -> Tensor:
    """The product of elements, of all or along one dimension.

    >>> import flambeau as torch
    >>> torch.prod(torch.tensor([2.0, 3.0, 4.0]))
    tensor(24.)
    """
    input, d = _sum_input("prod", input, dtype)
    ndim = input._array.ndim
    if dim is ...:
        return prod_op(input, tuple(range(ndim)), False, d)
    if not hasattr(dim, "__index__"):
        raise TypeError(f"prod(): argument 'dim' (position 2) must be int, not {type(dim).__name__}")
    return relabel(prod_op(input, wrap_dims(dim, ndim), keepdim, d), "ProdBackward1")


# -- truth and counts --------------------------------------------------------------------------------------------


@primitive(differentiable=False, name="truth", meta=shape_rule(lambda x, fold, d: d), batch=along)
def truth_op(backend: Any, x: Any, dims: tuple[int, ...], keepdim: bool, fold: str, d: dtype) -> Any:
    if x.dtype == complex32.numpy:  # without kernels of its own
        x = cast_array(x, complex64)
    return fold_array(backend, x, dims, keepdim, fold, d)


def _truth(name: str, input: Tensor, dim: Any, keepdim: bool) -> Tensor:
    d = uint8 if input.dtype is uint8 else bool_
    ndim = input._array.ndim
    dims = () if dim is not None and not hasattr(dim, "__index__") and not len(dim) else wrap_dims(dim, ndim)
    return truth_op(input, dims, keepdim, name, d)


@public(out=True, planned=True)
@out_dtypes("any only supports bool tensor for result, got: {out}", (bool_, uint8))
def any(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether any element is true, over dimensions (all by default).

    >>> import flambeau as torch
    >>> torch.any(torch.tensor([False, True]))
    tensor(True)
    """
    return _truth("any", input, dim, keepdim)


@public(out=True, planned=True)
@out_dtypes("all only supports bool tensor for result, got: {out}", (bool_, uint8))
def all(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether all elements are true, over dimensions (all by default).

    >>> import flambeau as torch
    >>> torch.all(torch.tensor([False, True]))
    tensor(False)
    """
    return _truth("all", input, dim, keepdim)


@public()
def _is_all_true(input: Tensor) -> Tensor:
    """Whether all elements of a tensor of bools are true; inside `vmap`, those of all samples."""
    return _truth("all", input, None, False)


@public()
def _is_any_true(input: Tensor) -> Tensor:
    """Whether an element of a tensor of bools is true; inside `vmap`, one of any sample."""
    return _truth("any", input, None, False)


@public(planned=True)
def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    """The number of elements that are not zero, over dimensions (all by default).

    >>> import flambeau as torch
    >>> torch.count_nonzero(torch.tensor([0.0, 1.0, 2.0]))
    tensor(2)
    """
    return truth_op(input, wrap_dims(dim, input._array.ndim), False, "count", int64)


SCHEMAS = """
sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor  # autocast=cuda:single
sum|mean(Tensor self, *, ScalarType? dtype=None) -> Tensor
sum.IntList_out(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)
nansum|nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
mean.out(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)
mean.dtype_out(Tensor self, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)
sum_to_size(Tensor self, SymInt[] size) -> Tensor
prod(Tensor self, *, ScalarType? dtype=None) -> Tensor  # autocast=single
prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
prod.int_out(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)
any|all|_is_all_true|_is_any_true(Tensor self) -> Tensor
any|all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor
any|all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor
any|all.out(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)
any|all.all_out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
count_nonzero(Tensor self, int? dim=None) -> Tensor
count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor
"""
