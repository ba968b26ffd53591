"""Statistics over dimensions: variances, norms, log-sum-exp, covariances."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from .._backend.cpu import cpu
from .._core.dtypes import BY_NUMPY, COMPLEX, FLOATING, default, dtype
from .._core.sizes import wrap_dim, wrap_dims
from .._kernel.softmax import log_sum_exp_rows
from .._tensor import Tensor
from .folding import fold_array, moments_over, reduced_shape
from .pointwise_op import not_implemented
from .primitive import primitive
from .reduction import expand_back, require_bool, require_tensor, restore_dims
from .registry import ops, public

# -- variances ---------------------------------------------------------------------------------------------------


def _moments(backend: Any, x: Any, dims: Any, keepdim: bool, correction: float, root: bool) -> tuple[Any, Any]:
    """Variance (or its root) and mean, in the dtype of `x`."""
    if backend is not cpu:
        xp = backend.xp
        count = math.prod(x.shape[d] for d in dims)
        mean = x.mean(axis=dims, keepdims=True)
        free = max(count - correction, 0.0)
        variance = xp.square(x - mean).sum(axis=dims, keepdims=keepdim) / (free or math.nan)
        mean = mean if keepdim else mean.squeeze(dims)
        return (xp.sqrt(variance) if root else variance).astype(x.dtype), mean.astype(x.dtype)
    squares, mean, count = moments_over(x, dims, keepdim)
    free = max(count - correction, 0.0)
    with np.errstate(all="ignore"):
        variance = squares / np.float64(free)
        made = np.sqrt(variance) if root else variance
        return np.asarray(made).astype(x.dtype), np.asarray(mean).astype(x.dtype)


def _var_grad(g: Tensor, x: Tensor, dims: Any, keepdim: bool, correction: float) -> Tensor:
    free = math.prod(x._array.shape[d] for d in dims) - correction
    g = restore_dims(g, dims, keepdim)
    centred = x - ops.mean(x, dims, True)
    if free <= 0:  # no limit exists
        return g * ops.where(ops.eq(centred, 0), math.nan, math.inf)
    return (2.0 / free) * g * centred


def _std_grad(g: Tensor, x: Tensor, out: Tensor, dims: Any, keepdim: bool, correction: float) -> Tensor:
    scaled = ops.masked_fill(g / (out * 2), ops.eq(out, 0), 0)
    return _var_grad(scaled, x, dims, keepdim, correction)


def _mean_grad(g: Tensor, x: Tensor, dims: Any, keepdim: bool) -> Tensor:
    shape = x._array.shape
    return expand_back(g, shape, dims, keepdim) / math.prod(shape[d] for d in dims)


def _var_mean_grad(gs: Any, x: Tensor, dims: Any, keepdim: bool, correction: float) -> Tensor:
    return _var_grad(gs[0], x, dims, keepdim, correction) + _mean_grad(gs[1], x, dims, keepdim)


def _std_mean_grad(gs: Any, x: Tensor, outs: Any, dims: Any, keepdim: bool, correction: float) -> Tensor:
    return _std_grad(gs[0], x, outs[0], dims, keepdim, correction) + _mean_grad(gs[1], x, dims, keepdim)


def _one_rule(x: Any, dims: Any, keepdim: bool, correction: float) -> Any:
    return reduced_shape(x.shape, dims, keepdim), BY_NUMPY[x.dtype]


def _two_rule(x: Any, dims: Any, keepdim: bool, correction: float) -> Any:
    return [_one_rule(x, dims, keepdim, correction)] * 2


@primitive(grad={"x": _var_grad}, name="var", meta=_one_rule)
def var_op(backend: Any, x: Any, dims: Any, keepdim: bool, correction: float) -> Any:
    return _moments(backend, x, dims, keepdim, correction, False)[0]


@primitive(grad={"x": _std_grad}, name="std", meta=_one_rule)
def std_op(backend: Any, x: Any, dims: Any, keepdim: bool, correction: float) -> Any:
    return _moments(backend, x, dims, keepdim, correction, True)[0]


@primitive(grad={"x": _var_mean_grad}, name="var_mean", meta=_two_rule)
def var_mean_op(backend: Any, x: Any, dims: Any, keepdim: bool, correction: float) -> Any:
    return _moments(backend, x, dims, keepdim, correction, False)


@primitive(grad={"x": _std_mean_grad}, name="std_mean", meta=_two_rule)
def std_mean_op(backend: Any, x: Any, dims: Any, keepdim: bool, correction: float) -> Any:
    return _moments(backend, x, dims, keepdim, correction, True)


def _variance(name: str, input: Tensor, dim: Any, unbiased: Any, keepdim: bool, correction: Any) -> Any:
    """Checks the arguments and computes variance (or deviation), with the mean if the name says so."""
    require_tensor(name, input)
    if dim is True or dim is False:  # var(input, unbiased)
        if unbiased is not None:
            raise TypeError(f"{name}(): unbiased is given twice")
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise TypeError(f"{name}() received an invalid combination of arguments: unbiased and correction")
    if unbiased is not None:
        require_bool(name, "unbiased", unbiased)
        correction = 1 if unbiased else 0
    elif correction is None:
        correction = 1
    d = input.dtype
    if d.category < FLOATING:
        raise RuntimeError(f"{name}: std and var only support floating point and complex dtypes, got {d}")
    if not d.code:
        raise not_implemented(name, d)
    shape = input._array.shape
    dims = wrap_dims(dim, len(shape))
    if math.prod(shape[i] for i in dims) - correction <= 0:
        warnings.warn(
            f"{name.partition('_')[0]}(): degrees of freedom is <= 0. Correction should be strictly less than the "
            "reduction factor (input numel divided by output numel).",
            UserWarning,
            stacklevel=5,
        )
    if d.category == COMPLEX:
        return _complex_variance(name, input, dims, keepdim, correction)
    return {"var": var_op, "std": std_op, "var_mean": var_mean_op, "std_mean": std_mean_op}[name](
        input, dims, keepdim, correction
    )


def _complex_variance(name: str, input: Tensor, dims: Any, keepdim: bool, correction: Any) -> Any:
    """The variance of a complex tensor is the sum of those of its parts."""
    total = var_op(ops.real(input), dims, keepdim, correction) + var_op(ops.imag(input), dims, keepdim, correction)
    made = ops.sqrt(total) if name.startswith("std") else total
    return (made, ops.mean(input, dims, keepdim)) if name.endswith("mean") else made


@public(out=True)
def var(input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None) -> Tensor:
    """The variance over dimensions: squared deviations over (count - correction), correction 1 by default.

    >>> import flambeau as torch
    >>> torch.var(torch.tensor([1.0, 2.0, 3.0]))
    tensor(1.)
    """
    return _variance("var", input, dim, unbiased, keepdim, correction)


@public(out=True)
def std(input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None) -> Tensor:
    """The standard deviation over dimensions: the root of `var`.

    >>> import flambeau as torch
    >>> torch.std(torch.tensor([1.0, 2.0, 3.0]))
    tensor(1.)
    """
    return _variance("std", input, dim, unbiased, keepdim, correction)


@public(method=False)
def var_mean(
    input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> tuple[Tensor, Tensor]:
    """Variance and mean over dimensions.

    >>> import flambeau as torch
    >>> torch.var_mean(torch.tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    return _variance("var_mean", input, dim, unbiased, keepdim, correction)


@public(method=False)
def std_mean(
    input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean over dimensions.

    >>> import flambeau as torch
    >>> torch.std_mean(torch.tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    return _variance("std_mean", input, dim, unbiased, keepdim, correction)


# -- log-sum-exp -------------------------------------------------------------------------------------------------


def _log_sum_exp_grad(g: Tensor, x: Tensor, out: Tensor, dims: Any, keepdim: bool) -> Tensor:
    g, out = restore_dims(g, dims, keepdim), restore_dims(out, dims, keepdim)
    return g * ops.conj(ops.exp(x - out))


@primitive(
    grad={"x": _log_sum_exp_grad}, name="logsumexp",
    meta=lambda x, dims, keepdim: (reduced_shape(x.shape, dims, keepdim), BY_NUMPY[x.dtype]),
)  # fmt: skip
def log_sum_exp_op(backend: Any, x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    xp = backend.xp
    shape = reduced_shape(x.shape, dims, keepdim)
    if x.size == 0:
        return xp.full(shape, -math.inf, x.dtype)
    d = BY_NUMPY[x.dtype]
    if backend is not cpu or d.category == COMPLEX:
        return _log_sum_exp_elsewhere(xp, x, dims, keepdim)
    kept = [i for i in range(x.ndim) if i not in dims]
    y = x.transpose(*kept, *dims).reshape(*[x.shape[i] for i in kept], -1)
    out = xp.empty(y.shape[:-1], x.dtype)
    cpu.rows(cpu.kernel(log_sum_exp_rows, (d.code, d.code)), [y], [out], 8 * y.size)
    return out.reshape(shape)


def _log_sum_exp_elsewhere(xp: Any, x: Any, dims: Any, keepdim: bool) -> Any:
    high = x.real.max(axis=dims, keepdims=True)
    high = xp.where(xp.isfinite(high), high, 0)
    with np.errstate(all="ignore"):
        made = xp.log(xp.exp(x - high).sum(axis=dims, keepdims=True)) + high
    return (made if keepdim else made.squeeze(dims)).astype(x.dtype)


@public("logsumexp", "special.logsumexp", out=True)
def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """The logarithm of the sum of exponentials over dimensions, without overflow.

    >>> import flambeau as torch
    >>> torch.logsumexp(torch.tensor([1000.0, 1000.0]), 0)
    tensor(1000.6931)
    """
    require_tensor("logsumexp", input)
    if input.dtype.category < FLOATING:
        input = ops.to_dtype(input, default.float)
    ndim = input._array.ndim
    dims = wrap_dims(dim, ndim) if ndim else wrap_dims(dim, 1) and ()
    return log_sum_exp_op(input, dims, keepdim)
