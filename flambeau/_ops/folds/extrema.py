"""Extrema: the largest and smallest elements, and where they are."""

from __future__ import annotations

from typing import Any

from ..._core import return_types
from ..._core.dtypes import BOOL, BY_NUMPY, COMPLEX, dtype, int64
from ..._core.sizes import wrap_dim, wrap_dims
from ..._kernel.folds.rows import Rows
from ..._tensor import Tensor
from .. import registry
from ..records.batching import along, over_all
from ..records.primitive import primitive
from ..records.rules import not_implemented
from ..records.tangents import chosen_along
from ..registry import labelled, ops, public
from .folding import extremum, fold_array, reduced_shape
from .reduction import restore_dims, shape_rule
from .row_gradients import along_rows, placed


def require_elements(name: str, shape: Any, dims: Any) -> None:
    """Extrema have no neutral element: something must be there to choose from."""
    for d in dims:
        if d < len(shape) and shape[d] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")


def _sharing(missing: bool) -> Rows:
    """The elements that equal the row's extremum share its gradient; with `missing`, NaN equals NaN."""

    def same(m: Any, x: Any, best: Any) -> Any:
        return (x == best) | ((x != x) & (best != best)) if missing else x == best

    def shares(m: Any, g: Any, best: Any, total: Any, count: Any) -> tuple[Any, Any]:
        return g / m.cast(total, g.type), g * 0.0 / m.cast(total, g.type)

    def last(m: Any, x: Any, g: Any, best: Any, share: Any, nothing: Any, count: Any) -> Any:
        return m.where(same(m, x, best), share, nothing)

    return Rows((("count", lambda m, x, g, best, count: same(m, x, best)),), last, fixed=2, settle=shares)


_EACH_EXTREMUM, _EXTREMUM = _sharing(False), _sharing(True)


def _share(g: Tensor, x: Tensor, out: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """All elements equal to the extremum share its gradient."""
    made = along_rows("share", _EACH_EXTREMUM, g, x, out, dims)
    if made is not None:
        return made
    mask = ops.eq(x, restore_dims(out, dims, keepdim))
    return restore_dims(g, dims, keepdim) * mask / ops.sum(mask, dims, True)


def _share_all(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    made = along_rows("share_all", _EXTREMUM, g, x, out, tuple(range(x._array.ndim)))
    if made is not None:
        return made
    mask = ops.logical_or(ops.eq(x, out), ops.logical_and(ops.isnan(x), ops.isnan(out)))
    return mask * (g / ops.sum(mask))


def _own(x: Any) -> dtype:
    return BY_NUMPY[x.dtype]


def scatter_back(g: Tensor, shape: Any, dim: int, indices: Tensor, keepdim: bool) -> Tensor:
    """The gradient of elements that were chosen along a dimension."""
    if not shape:
        return g
    made = placed(g, shape, dim, indices, keepdim)
    if made is not None:
        return made
    if not keepdim:
        g, indices = ops.unsqueeze(g, dim), ops.unsqueeze(indices, dim)
    return ops.scatter(ops.new_zeros(g, shape), dim, indices, g)


def chosen_grad(g: Tensor, others: Any, x_shape: Any, dim: int, keepdim: bool) -> Tensor:
    return scatter_back(g, x_shape, dim, others[0], keepdim)


def _extremum_rule(x: Any, dim: int, keepdim: bool) -> Any:
    shape = reduced_shape(x.shape, (dim,), keepdim)
    return [(shape, _own(x)), (shape, int64)]


def _extremes(fold: str) -> tuple[Any, Any, Any]:
    """The records of an extremum: over dimensions, of everything, and along one dimension, with its places."""
    label = fold.capitalize() + "Backward{}"

    @primitive(grad={"x": _share}, name="a" + fold, meta=shape_rule(lambda x: _own(x)), batch=along)
    def over(backend: Any, x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
        return fold_array(backend, x, dims, keepdim, fold, _own(x))

    @primitive(
        grad={"x": _share_all}, name=fold + "_all", backward_name=label.format(1), meta=lambda x: ((), _own(x)),
        batch=over_all(lambda x: getattr(ops, "a" + fold)(x, 1)),
    )  # fmt: skip
    def whole(backend: Any, x: Any) -> Any:
        return fold_array(backend, x, tuple(range(x.ndim)), False, fold, _own(x))

    @primitive(
        grad={"x": chosen_grad}, name=fold, meta=_extremum_rule, backward_name=label.format(0), batch=along,
        tangent=chosen_along,
    )  # fmt: skip
    def along_one(backend: Any, x: Any, dim: int, keepdim: bool) -> Any:
        if x.ndim == 0:
            return x.copy(), backend.zeros((), "int64")
        return tuple(extremum(backend, x, dim, 1 if fold == "max" else -1, keepdim))

    return over, whole, along_one


amax_op, max_all, max_op = _extremes("max")
amin_op, min_all, min_op = _extremes("min")


def _require_ordered(input: Any, kernel: str) -> None:
    d = input.dtype
    if d.category == COMPLEX or not d.code:
        raise not_implemented(kernel, d)


def _max_or_min(name: str, input: Tensor, dim: Any, keepdim: Any, whole: Any, along: Any, between: str) -> Any:
    if isinstance(dim, Tensor):
        return getattr(ops, between)(input, dim)
    if dim is ...:
        _require_ordered(input, name + "_all")
        if keepdim is not None:
            raise TypeError(f"{name}() received an invalid combination of arguments: keepdim needs dim")
        if input._array.size == 0:
            raise RuntimeError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0; pass dim")
        return whole(input)
    if input.dtype.category == COMPLEX:
        raise RuntimeError(f"{name}(): does not support complex input")
    _require_ordered(input, name)
    if not hasattr(dim, "__index__"):
        raise TypeError(f"{name}(): argument 'dim' (position 2) must be int, not {type(dim).__name__}")
    dim = wrap_dim(dim, input._array.ndim)
    require_elements(name, input._array.shape, (dim,))
    return getattr(return_types, name)(*along(input, dim, bool(keepdim)))


@public(out=True, planned=True)
def max(input: Tensor, dim: Any = ..., keepdim: Any = None, *, other: Any = None) -> Any:
    """The largest of all elements; with `dim`, those along it and their indices; with a tensor, elementwise.

    >>> import flambeau as torch
    >>> torch.max(torch.tensor([[1.0, 5.0], [7.0, 2.0]]), 1).indices
    tensor([1, 0])
    """
    return _max_or_min("max", input, dim if other is None else other, keepdim, max_all, max_op, "maximum")


@public(out=True, planned=True)
def min(input: Tensor, dim: Any = ..., keepdim: Any = None, *, other: Any = None) -> Any:
    """The smallest of all elements; with `dim`, those along it and their indices; with a tensor, elementwise.

    >>> import flambeau as torch
    >>> torch.min(torch.tensor([[1.0, 5.0], [7.0, 2.0]]), 1).values
    tensor([1., 2.])
    """
    return _max_or_min("min", input, dim if other is None else other, keepdim, min_all, min_op, "minimum")


def _extreme_values(name: str, op: Any, input: Tensor, dim: Any, keepdim: bool) -> Tensor:
    _require_ordered(input, f"{name[1:]}_values_cpu")
    shape = input._array.shape
    dims = wrap_dims(dim, len(shape))
    if 0 in shape:
        if dim is None or (not isinstance(dim, int) and not len(dim)):
            raise RuntimeError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0; pass dim")
        require_elements(name, shape, dims)
    return op(input, dims, keepdim)


@public(out="exact", planned=True)
def amax(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The largest elements over dimensions; equal ones share the gradient.

    >>> import flambeau as torch
    >>> torch.amax(torch.tensor([[1.0, 5.0], [7.0, 2.0]]), 1)
    tensor([5., 7.])
    """
    return _extreme_values("amax", amax_op, input, dim, keepdim)


@public(out="exact", planned=True)
def amin(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The smallest elements over dimensions; equal ones share the gradient.

    >>> import flambeau as torch
    >>> torch.amin(torch.tensor([[1.0, 5.0], [7.0, 2.0]]), 1)
    tensor([1., 2.])
    """
    return _extreme_values("amin", amin_op, input, dim, keepdim)


@public(planned=True)
@labelled("AminmaxBackward0")
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False, out: Any = None) -> Any:
    """The smallest and the largest elements, of all or along a dimension.

    >>> import flambeau as torch
    >>> torch.aminmax(torch.tensor([3.0, 1.0, 2.0])).max
    tensor(3.)
    """
    _require_ordered(input, "aminmax")
    shape = input._array.shape
    if dim is None:
        dims: Any = tuple(range(len(shape)))
        if 0 in shape:
            raise RuntimeError("aminmax(): cannot compute aminmax over an empty dimension: it has no identity")
    else:
        dims = wrap_dims(dim, len(shape))
        require_elements("aminmax", shape, dims)
    if out is not None:
        for t in out:
            if t.dtype is not input.dtype:
                raise RuntimeError(f"Expected out tensor to have dtype {input.dtype}, but got {t.dtype} instead")
        return registry.into_out(out, aminmax, (input,), {"dim": dim, "keepdim": keepdim})
    return return_types.aminmax(amin_op(input, dims, keepdim), amax_op(input, dims, keepdim))


@primitive(
    differentiable=False, name="arg_extremum",
    meta=lambda x, dim, keepdim, sign: (reduced_shape(x.shape, range(x.ndim) if dim is None else (dim,), keepdim), int64),
    batch=along,
)  # fmt: skip
def arg_extremum(backend: Any, x: Any, dim: int | None, keepdim: bool, sign: int) -> Any:
    xp = backend.xp
    if x.ndim == 0:
        return xp.zeros((), "int64")
    if dim is None:
        place = extremum(backend, x.reshape(-1), 0, sign)[1]
        return place.reshape((1,) * x.ndim) if keepdim else place
    return extremum(backend, x, dim, sign, keepdim)[1]


def _argument(name: str, input: Tensor, dim: Any, keepdim: bool, sign: int) -> Tensor:
    d = input.dtype
    if d.category in (BOOL, COMPLEX):
        raise RuntimeError(f"{name}(): does not support {'bool' if d.category == BOOL else 'complex'} input")
    shape = input._array.shape
    if dim is None:
        if 0 in shape:
            raise IndexError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0.")
    else:
        dim = wrap_dim(dim, len(shape))
        require_elements(name, shape, (dim,))
    return arg_extremum(input, dim, keepdim, sign)


@public(out="exact", planned=True)
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Where the largest element is: in the flattened tensor, or along a dimension.

    >>> import flambeau as torch
    >>> torch.argmax(torch.tensor([[1.0, 5.0], [7.0, 2.0]]), dim=1)
    tensor([1, 0])
    """
    return _argument("argmax", input, dim, keepdim, 1)


@public(out="exact", planned=True)
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Where the smallest element is: in the flattened tensor, or along a dimension.

    >>> import flambeau as torch
    >>> torch.argmin(torch.tensor([3.0, 1.0, 2.0]))
    tensor(1)
    """
    return _argument("argmin", input, dim, keepdim, -1)


SCHEMAS = """
max|min.other(Tensor self, Tensor other) -> Tensor
max|min(Tensor self) -> Tensor
max|min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
max.dim_max(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) max, Tensor(b!) max_values) -> (Tensor(a!) values, Tensor(b!) indices)
max.unary_out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
max.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)
min.dim_min(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) min, Tensor(b!) min_indices) -> (Tensor(a!) values, Tensor(b!) indices)
min.unary_out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
min.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)
amax|amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor
aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)
aminmax.out(Tensor self, *, int? dim=None, bool keepdim=False, Tensor(a!) min, Tensor(b!) max) -> (Tensor(a!) min, Tensor(b!) max)
argmax|argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor
"""
