"""Running folds along a dimension: cumsum, cumprod, cummax, cummin, logcumsumexp."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes

from ..._backend import threads
from ..._backend.cpu import cpu
from ..._core import return_types
from ..._core.dtypes import BY_NUMPY, COMPLEX, FLOATING, bfloat16, dtype, float16, float32, float64, int64
from ..._core.sizes import wrap_dim
from ..._core.state import CUDA, local, modes
from ..._dispatch import backend_of
from ..._kernel.folds.scan import (
    TOGETHER,
    log_sum_rows,
    recurrence,
    running_extremum,
    running_extremum_columns,
    scan_columns,
    scan_rows,
    scan_short_rows,
)
from ..._tensor import Tensor, wrap
from ..basic import either
from ..records.batching import along
from ..records.primitive import primitive
from ..records.rules import not_implemented
from ..records.shape_rules import same
from ..records.tangents import chosen_along, linear
from ..registry import ops, public
from .folding import to_last
from .row_gradients import placed

_NARROW = 8  # columns that are too few to be folded side by side


def run_rows(kernel: Any, types: tuple[str, ...], arrays: list[Any], outs: list[Any], dim: int, **options: Any) -> None:
    """A kernel over rows along any dimension of arrays of one shape, split over the threads."""
    work, operands = max(arrays[0].size, outs[0].size), [*arrays, *outs]
    if dim != outs[0].ndim - 1:
        operands = [to_last(a, dim) for a in operands]
    cpu.widest(cpu.sized(work, kernel, types, **options), operands, outs[0].ndim - 1, work)


def _scan(
    ways: tuple[Any, Any], types: tuple[str, ...], x: Any, outs: list[Any], dim: int, back: bool = False, **options: Any
) -> None:
    """The first of two kernels along rows, or the second down columns that lie side by side; from the end, if `back`."""
    columns, turn = math.prod(x.shape[dim + 1 :]), slice(None, None, -1 if back else None)
    if columns < _NARROW or x.dtype.kind == "c" or not x.flags.c_contiguous:
        key = (*[slice(None)] * dim, turn)
        run_rows(ways[0], types, [x[key]], [o[key] for o in outs], dim, **options)
        return
    call = cpu.sized(x.size, ways[1], types, **options)
    operands = [a.reshape(-1, x.shape[dim], columns)[:, turn] for a in (x, *outs)]
    if len(operands[0]) >= threads.count(x.size):
        call(*operands)
    else:
        cpu.columns(call, operands, x.size)


def _in_few_columns(x: Any, dim: int) -> bool:
    """Whether rows are short and dense, and so many that vectors have one element each of them."""
    n = x.shape[dim]
    return bool(
        dim == x.ndim - 1
        and n < _NARROW
        and x.flags.c_contiguous
        and x.dtype.kind != "c"
        and x.size >= 2 * TOGETHER * n
    )


def scan_array(backend: Any, x: Any, dim: int, fold: str, d: dtype, back: bool = False) -> Any:
    if x.ndim == 0:
        return scan_array(backend, x.reshape(1), 0, fold, d).reshape(())
    out = backend.empty(x.shape, d.numpy)
    if backend is not cpu:
        key = (*[slice(None)] * dim, slice(None, None, -1 if back else None))
        backend.scans.run(fold, x[key], [out[key]], dim)
    elif x.size and not back and fold != "logsumexp" and _in_few_columns(x, dim):
        call = cpu.sized(x.size, scan_short_rows, (BY_NUMPY[x.dtype].code, d.code), fold=fold, width=x.shape[dim])
        operands = [a.reshape(-1, x.shape[dim]) for a in (x, out)]
        parts = threads.ranges(len(operands[0]), TOGETHER, x.size)
        cpu.side_by_side(call, [[a[start:stop] for a in operands] for start, stop in parts])
    elif x.size:
        rows = log_sum_rows if fold == "logsumexp" and x.dtype.kind != "c" else scan_rows
        _scan((rows, scan_columns), (BY_NUMPY[x.dtype].code, d.code), x, [out], dim, back, fold=fold)
    return out


def _same_shape(x: Any, dim: int, d: dtype) -> Any:
    return x.shape, d


def _from_end(fold: str, x: Tensor, dim: int) -> Tensor:
    """A running fold from the end; of a plain tensor, where nobody asks for the operations, in one pass."""
    op = ops.cumsum if fold == "sum" else ops.logcumsumexp
    if not x._array.ndim:
        return op(x, dim)
    if (x._k | modes.on) & ~CUDA:
        return ops.flip(op(ops.flip(x, (dim,)), dim), (dim,))
    return wrap(scan_array(backend_of(x._k), x._array, dim, fold, x.dtype, True), x.dtype, x._k)


@primitive(
    grad={"x": lambda g, dim: _from_end("sum", g, dim)},
    name="cumsum",
    meta=_same_shape,
    batch=along,
    tangent=linear("x"),
)
def cumsum_op(backend: Any, x: Any, dim: int, d: dtype) -> Any:
    return scan_array(backend, x, dim, "sum", d)


def _shifted(x: Tensor, dim: int, first: float) -> Tensor:
    """x moved by one place along a dimension, with a number in front."""
    n = x._array.shape[dim]
    start = ops.full_like(ops.narrow(x, dim, 0, 1), first)
    return ops.cat([start, ops.narrow(x, dim, 0, n - 1)], dim)


def _cumprod_grad(g: Tensor, x: Tensor, out: Tensor, dim: int, d: dtype) -> Tensor:
    """Where there are zeros: what comes before a factor times the sum of what comes after, without division."""
    x = ops.conj(x if x.dtype is d else ops.to_dtype(x, d))
    if x._array.ndim == 0:
        return g * 1
    if x._array.size == 0:
        return g * x

    def without_division() -> Tensor:
        before = _shifted(ops.cumprod(x, dim), dim, 1.0)
        after = _shifted(ops.flip(x, (dim,)), dim, 1.0)
        return before * ops.flip(recurrence_op(ops.flip(g, (dim,)), after, dim), (dim,))

    zeros = ops.any(ops.eq(x, 0))
    return either(zeros, without_division, lambda: _from_end("sum", g * ops.conj(out), dim) / x, True)


@primitive(grad={"x": _cumprod_grad}, name="cumprod", meta=_same_shape, batch=along)
def cumprod_op(backend: Any, x: Any, dim: int, d: dtype) -> Any:
    return scan_array(backend, x, dim, "prod", d)


def _recurrence_back(g: Tensor, a: Tensor, dim: int) -> Tensor:
    turned = _shifted(ops.flip(ops.conj(a), (dim,)), dim, 1.0)
    return ops.flip(recurrence_op(ops.flip(g, (dim,)), turned, dim), (dim,))


@primitive(
    meta=same,
    tensors=2, name="linear_recurrence",
    grad={
        "x": lambda g, a, dim: _recurrence_back(g, a, dim),
        "a": lambda g, a, out, dim: _recurrence_back(g, a, dim) * ops.conj(_shifted(out, dim, 0.0)),
    },
    batch=along,
)  # fmt: skip
def recurrence_op(backend: Any, x: Any, a: Any, dim: int) -> Any:
    """s[i] = x[i] + a[i] * s[i - 1] along a dimension."""
    out, types = backend.empty(x.shape, x.dtype), (BY_NUMPY[x.dtype].code,) * 3
    if backend is not cpu:
        backend.kernel(recurrence, types)(*[to_last(v, dim) for v in (x, a, out)])
    elif x.size:
        run_rows(recurrence, types, [x, a], [out], dim)
    return out


def _running(name: str, op: Any, input: Tensor, dim: int, d: dtype | None) -> Tensor:
    if d is None:
        d = input.dtype if input.dtype.category >= FLOATING else int64
    elif d.category != input.dtype.category or d.category < FLOATING:
        input = ops.to_dtype(input, d) if input.dtype is not d else input
    if not d.code:
        raise not_implemented(f"{name}_out_cpu", d)
    return op(input, wrap_dim(dim, input._array.ndim), d)


@public(out="dtype", inplace=True, planned=True)
def cumsum(input: Tensor, dim: int, *, dtype: dtype | None = None) -> Tensor:
    """Sums of all elements so far along a dimension.

    >>> import flambeau as torch
    >>> torch.cumsum(torch.tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 3., 6.])
    """
    return _running("cumsum", cumsum_op, input, dim, dtype)


@public(out="dtype", inplace=True, planned=True)
def cumprod(input: Tensor, dim: int, *, dtype: dtype | None = None) -> Tensor:
    """Products of all elements so far along a dimension.

    >>> import flambeau as torch
    >>> torch.cumprod(torch.tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 2., 6.])
    """
    return _running("cumprod", cumprod_op, input, dim, dtype)


# -- extrema -----------------------------------------------------------------------------------------------------


def _extremum_grad(g: Tensor, others: Any, x_shape: Any, dim: int) -> Tensor:
    if not x_shape:
        return g
    made = placed(g, x_shape, dim, others[0], True, add=True) if g.dtype.itemsize > 2 else None
    return ops.scatter_add(ops.new_zeros(g, x_shape), dim, others[0], g) if made is None else made


def _extremum_rule(x: Any, dim: int) -> Any:
    return [(x.shape, BY_NUMPY[x.dtype]), (x.shape, int64)]


def _extrema(backend: Any, x: Any, dim: int, sign: int) -> Any:
    if x.ndim == 0:
        return x.copy(), backend.zeros((), "int64")
    values, places = backend.empty(x.shape, x.dtype), backend.empty(x.shape, "int64")
    if backend is not cpu:
        backend.scans.run("max" if sign > 0 else "min", x, [values, places], dim)
    elif x.size:
        types = (BY_NUMPY[x.dtype].code, BY_NUMPY[x.dtype].code, "i64")
        _scan((running_extremum, running_extremum_columns), types, x, [values, places], dim, sign=sign)
    return values, places


@primitive(grad={"x": _extremum_grad}, name="cummax", meta=_extremum_rule, batch=along, tangent=chosen_along)
def cummax_op(backend: Any, x: Any, dim: int) -> Any:
    return _extrema(backend, x, dim, 1)


@primitive(grad={"x": _extremum_grad}, name="cummin", meta=_extremum_rule, batch=along, tangent=chosen_along)
def cummin_op(backend: Any, x: Any, dim: int) -> Any:
    return _extrema(backend, x, dim, -1)


def _running_extremum(name: str, op: Any, input: Tensor, dim: int) -> Any:
    if input.dtype.category == COMPLEX or not input.dtype.code:
        raise not_implemented(f"{name}_cpu", input.dtype)
    if not input._array.ndim and dim not in (-1, 0):
        raise IndexError(f"{name}(): Expected reduction dim -1 or 0 for scalar but got {dim}")
    dim = wrap_dim(dim, input._array.ndim)
    return getattr(return_types, name)(*op(input, dim))


@public(out=True, planned=True)
def cummax(input: Tensor, dim: int) -> Any:
    """The largest elements so far along a dimension, and where they are.

    >>> import flambeau as torch
    >>> torch.cummax(torch.tensor([1.0, 3.0, 2.0]), 0).values
    tensor([1., 3., 3.])
    """
    return _running_extremum("cummax", cummax_op, input, dim)


@public(out=True, planned=True)
def cummin(input: Tensor, dim: int) -> Any:
    """The smallest elements so far along a dimension, and where they are.

    >>> import flambeau as torch
    >>> torch.cummin(torch.tensor([3.0, 1.0, 2.0]), 0).values
    tensor([3., 1., 1.])
    """
    return _running_extremum("cummin", cummin_op, input, dim)


# -- logarithmic sums --------------------------------------------------------------------------------------------


_LOWEST = {d: float(ml_dtypes.finfo(d.numpy).min) for d in (float16, bfloat16, float32, float64)}


def _log_sum_grad(g: Tensor, x: Tensor, out: Tensor, dim: int) -> Tensor:
    """exp(x) * (sum from here of g * exp(-out)), in logarithms, as PyTorch rounds it; the signs of real gradients apart."""
    if local.forward_reading:  # a zero cotangent has no logarithm whose derivative is its own
        return _sums_from_the_end(g, x, out, dim)
    if x.dtype.category == COMPLEX:
        return ops.conj(ops.exp(_from_end("logsumexp", ops.log(ops.conj(g)) - out, dim) + x))
    low = _LOWEST[x.dtype]  # finite, so that derivatives of what is not there are zero
    positive = ops.where(g > 0, ops.log(g), low)
    negative = ops.where(g < 0, ops.log(-g), low)
    up = ops.exp(_from_end("logsumexp", positive - out, dim) + x)
    return up - ops.exp(_from_end("logsumexp", negative - out, dim) + x)


def _sums_from_the_end(g: Tensor, x: Tensor, out: Tensor, dim: int) -> Tensor:
    """The sum of g[j] * exp(x[i] - out[j]) over all j from i on: from the end, in steps that never grow for reals."""
    if x._array.ndim == 0 or not x._array.size:
        return g * 1
    turned = ops.flip(out, (dim,))
    before = ops.cat([ops.narrow(turned, dim, 0, 1), ops.narrow(turned, dim, 0, turned._array.shape[dim] - 1)], dim)
    steps = ops.conj(ops.exp(_difference(turned, before)))  # the first is 1, whatever the numbers
    total = ops.flip(recurrence_op(ops.flip(g, (dim,)), steps, dim), (dim,))
    return total * ops.conj(ops.exp(_difference(x, out)))


def _difference(a: Tensor, b: Tensor) -> Tensor:
    """a - b, also of infinite numbers that are equal."""
    return ops.where(ops.eq(a, b), 0.0, a - b)


@primitive(
    grad={"x": _log_sum_grad}, name="logcumsumexp", meta=lambda x, dim: (x.shape, BY_NUMPY[x.dtype]), batch=along
)
def log_cum_sum_exp_op(backend: Any, x: Any, dim: int) -> Any:
    return scan_array(backend, x, dim, "logsumexp", BY_NUMPY[x.dtype])


@public(out="exact", planned=True)
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """Logarithms of the sums of exponentials of all elements so far along a dimension.

    >>> import flambeau as torch
    >>> torch.logcumsumexp(torch.tensor([0.0, 0.0]), 0)
    tensor([0.0000, 0.6931])
    """
    if input.dtype.category < FLOATING or not input.dtype.code:
        raise not_implemented("logcumsumexp_out_cpu", input.dtype)
    return log_cum_sum_exp_op(input, wrap_dim(dim, input._array.ndim))


SCHEMAS = """
cumsum|cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor  # autocast=cuda:single
cummax|cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)
cummax|cummin.out(Tensor self, int dim, *, Tensor(a!) values, Tensor(b!) indices) -> (Tensor(a!) values, Tensor(b!) indices)
logcumsumexp(Tensor self, int dim) -> Tensor
"""
