"""Statistics over dimensions: variances, norms, log-sum-exp, covariances."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..._core.allocation import not_planned
from ..._core.dtypes import BOOL, BY_NUMPY, COMPLEX, FLOATING, INTEGER, default, float32, float64
from ..._core.sizes import wrap_dim, wrap_dims
from ..._core.state import GRAD, modes
from ..._errors.frames import warn_user
from ..._kernel.folds.rows import Rows
from ..._tensor import Tensor
from ..basic import answer
from ..records.batching import along
from ..records.primitive import primitive
from ..records.refusals import refusal
from ..records.rules import not_implemented
from ..registry import ops, public, relabel
from .folding import layout, reduced_shape, unlay
from .reduction import expand_back, require_bool, restore_dims
from .row_gradients import along_rows

# -- variances ---------------------------------------------------------------------------------------------------


def _moments(backend: Any, x: Any, dims: Any, keepdim: bool, correction: float, root: bool) -> tuple[Any, Any]:
    """Variance (or its root) and mean, in the dtype of `x`."""
    shape = reduced_shape(x.shape, dims, keepdim)
    if not x.size:
        return tuple([backend.xp.full(shape, math.nan, x.dtype) for _ in range(2)])
    y, flags, kept, order = layout(x, dims)
    if not any(flags):
        y, flags = y[..., None], [*flags, True]
    free = max(math.prod([x.shape[d] for d in dims]) - correction, 0.0)
    made = backend.along.moments(y, tuple([d for d, flag in enumerate(flags) if flag]), free, root)
    return tuple([unlay(a, x.shape, kept, order, shape) for a in made])


@functools.cache
def _deviations(root: bool, code: str) -> Rows:
    """The gradient of a row's variance, or of its standard deviation, with so many degrees of freedom."""

    def settle(m: Any, g: Any, deviation: Any, free: Any, mean: Any, count: Any) -> tuple[Any, Any]:
        factor, size = m.cast(g, "f64") / free, m.cast(deviation, "f64")
        scale = m.where(size == 0.0, 0.0, factor / size) if root else factor * 2.0
        return mean, m.cast(scale, code)

    def last(m: Any, x: Any, g: Any, deviation: Any, free: Any, mean: Any, scale: Any, count: Any) -> Any:
        return (x - mean) * scale

    def mean(m: Any, total: Any, count: Any) -> Any:
        return m.cast(total / m.cast(count, "f64"), code)

    stages = (("sum", lambda m, x, g, deviation, free, count: x, mean),)
    return Rows(stages, last, fixed=3, numbers=1, settle=settle)


def _var_grad(g: Tensor, x: Tensor, dims: Any, keepdim: bool, correction: float) -> Tensor:
    free = math.prod([x._array.shape[d] for d in dims]) - correction
    if free > 0:
        made = along_rows("var_backward", _deviations(False, x.dtype.code), g, x, g, dims, (free,))
        if made is not None:
            return made
    g = restore_dims(g, dims, keepdim)
    centred = x - ops.mean(x, dims, True)
    if free <= 0:  # no limit exists
        return g * ops.where(ops.eq(centred, 0), math.nan, math.inf)
    return (2.0 / free) * g * centred


def _std_grad(g: Tensor, x: Tensor, out: Tensor, dims: Any, keepdim: bool, correction: float) -> Tensor:
    free = math.prod([x._array.shape[d] for d in dims]) - correction
    if free > 0:
        made = along_rows("std_backward", _deviations(True, x.dtype.code), g, x, out, dims, (free,))
        if made is not None:
            return made
    none = ops.eq(out, 0)
    scaled = ops.masked_fill(g / (ops.masked_fill(out, none, 1) * 2), none, 0)  # forward mode differentiates it by g
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


@primitive(grad={"x": _var_grad}, name="var", meta=_one_rule, batch=along)
def var_op(backend: Any, x: Any, dims: Any, keepdim: bool, correction: float) -> Any:
    return _moments(backend, x, dims, keepdim, correction, False)[0]


@primitive(grad={"x": _std_grad}, name="std", meta=_one_rule, batch=along)
def std_op(backend: Any, x: Any, dims: Any, keepdim: bool, correction: float) -> Any:
    return _moments(backend, x, dims, keepdim, correction, True)[0]


@primitive(grad={"x": _var_mean_grad}, name="var_mean", meta=_two_rule, batch=along)
def var_mean_op(backend: Any, x: Any, dims: Any, keepdim: bool, correction: float) -> Any:
    return _moments(backend, x, dims, keepdim, correction, False)


@primitive(grad={"x": _std_mean_grad}, name="std_mean", meta=_two_rule, batch=along)
def std_mean_op(backend: Any, x: Any, dims: Any, keepdim: bool, correction: float) -> Any:
    return _moments(backend, x, dims, keepdim, correction, True)


def _variance(name: str, input: Tensor, dim: Any, unbiased: Any, keepdim: bool, correction: Any) -> Any:
    """Checks the arguments and computes variance (or deviation), with the mean if the name says so."""
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
        not_planned()
        warn_user(
            f"{name.partition('_')[0]}(): degrees of freedom is <= 0. Correction should be strictly less than the number of "
            "elements in one reduction"
        )
    if d.category == COMPLEX:
        return _complex_variance(name, input, dims, keepdim, correction)
    return _OPS[name](input, dims, keepdim, correction)


_OPS = {"var": var_op, "std": std_op, "var_mean": var_mean_op, "std_mean": std_mean_op}


def _complex_variance(name: str, input: Tensor, dims: Any, keepdim: bool, correction: Any) -> Any:
    """The variance of a complex tensor is the sum of those of its parts."""
    total = var_op(ops.real(input), dims, keepdim, correction) + var_op(ops.imag(input), dims, keepdim, correction)
    made = total
    if name.startswith("std"):
        none = ops.eq(total, 0)  # where the root has no derivative, that of the deviation is zero
        made = ops.masked_fill(ops.sqrt(ops.masked_fill(total, none, 1)), none, 0)
    return (made, ops.mean(input, dims, keepdim)) if name.endswith("mean") else made


def _define(root: str, what: str, about: str) -> None:
    """`var` or `std`, and the same with the means."""

    def one(
        input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
    ) -> Tensor:
        return _variance(root, input, dim, unbiased, keepdim, correction)

    def with_mean(
        input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
    ) -> tuple[Tensor, Tensor]:
        return _variance(f"{root}_mean", input, dim, unbiased, keepdim, correction)

    example = "\n\n    >>> import flambeau as torch\n    >>> torch.{}(torch.tensor([1.0, 2.0, 3.0]))\n    {}\n    "
    one.__doc__ = f"{what} over dimensions: {about}." + example.format(root, "tensor(1.)")
    with_mean.__doc__ = f"{what} and mean over dimensions." + example.format(f"{root}_mean", "(tensor(1.), tensor(2.))")
    for function, name in ((one, root), (with_mean, f"{root}_mean")):
        function.__name__ = function.__qualname__ = name
    public(out=True, planned=True)(one)
    public(method=False, planned=True)(with_mean)


_define("var", "The variance", "squared deviations over (count - correction), correction 1 by default")
_define("std", "The standard deviation", "the root of `var`")


# -- log-sum-exp -------------------------------------------------------------------------------------------------


def _size(m: Any, high: Any, total: Any, count: Any) -> Any:
    made = m.log(m.cast(total, high.type)) + high
    return m.where(m.real_abs(high) == math.inf, high, made)


_LOG_SUM_EXP = Rows(
    (("peak", lambda m, x, count: x), ("sum", lambda m, x, high, count: m.decay(x - high))), _size, each=False
)
_SHARE_OF_SUM = Rows((), lambda m, x, g, whole, count: m.decay(x - whole) * g, fixed=2)


def _log_sum_exp_grad(g: Tensor, x: Tensor, out: Tensor, dims: Any, keepdim: bool) -> Tensor:
    made = along_rows("logsumexp_backward", _SHARE_OF_SUM, g, x, out, dims)
    if made is not None:
        return made
    g, out = restore_dims(g, dims, keepdim), restore_dims(out, dims, keepdim)
    return g * ops.conj(ops.exp(x - out))


@primitive(
    grad={"x": _log_sum_exp_grad}, name="logsumexp",
    meta=lambda x, dims, keepdim: (reduced_shape(x.shape, dims, keepdim), BY_NUMPY[x.dtype]),
    batch=along,
)  # fmt: skip
def log_sum_exp_op(backend: Any, x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    xp = backend.xp
    shape = reduced_shape(x.shape, dims, keepdim)
    if x.size == 0:
        return xp.full(shape, -math.inf, x.dtype)
    if x.dtype.kind == "c":
        return _complex_log_sum_exp(xp, x, dims, keepdim)
    out = backend.empty(reduced_shape(x.shape, dims, False), x.dtype)
    backend.along.run("logsumexp", _LOG_SUM_EXP, [x], [out], dims)
    return out.reshape(shape)


def _complex_log_sum_exp(xp: Any, x: Any, dims: Any, keepdim: bool) -> Any:
    high = x.real.max(axis=dims, keepdims=True)
    high = xp.where(xp.isfinite(high), high, 0)
    with np.errstate(all="ignore"):
        made = xp.log(xp.exp(x - high).sum(axis=dims, keepdims=True)) + high
    return (made if keepdim else made.squeeze(dims)).astype(x.dtype, order="C")


@public("logsumexp", "special.logsumexp", out=True, planned=True)
def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """The logarithm of the sum of exponentials over dimensions, without overflow.

    >>> import flambeau as torch
    >>> torch.logsumexp(torch.tensor([1000.0, 1000.0]), 0)
    tensor(1000.6932)
    """
    if input.dtype.category < FLOATING:
        input = ops.to_dtype(input, default.float)
    ndim = input._array.ndim
    dims = wrap_dims(dim, ndim) if ndim else wrap_dims(dim, 1) and ()
    return log_sum_exp_op(input, dims, keepdim)


# -- quantiles ---------------------------------------------------------------------------------------------------

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _check_quantile(name: str, input: Tensor, q: Tensor, interpolation: str) -> None:
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            f"{name} interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )
    if input._array.size == 0:
        raise RuntimeError(f"{name} input tensor must be non-empty")
    if input.dtype not in (float32, float64):
        raise RuntimeError(f"{name} input tensor must be either float or double dtype")
    if q.dtype is not input.dtype:
        raise RuntimeError(f"{name} q tensor must be same dtype as the input tensor")
    if q._array.ndim > 1:
        raise RuntimeError(f"{name} q must be a scalar or 1D tensor")
    _check_fractions(q, name)


@refusal
def _check_fractions(backend: Any, q: Any, name: str) -> None:
    if not ((q >= 0) & (q <= 1)).all():
        raise RuntimeError(f"{name} q values must be in the range [0, 1]")


def _quantile(name: str, input: Tensor, q: Any, dim: Any, keepdim: bool, interpolation: str, skip: bool) -> Tensor:
    if not isinstance(q, Tensor):
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name} q must be in the range [0, 1] but got {q}")
        if interpolation in _INTERPOLATIONS and not skip:
            made = _one_quantile(input, float(q), dim, keepdim, interpolation)
            if made is not None:
                return relabel(made, "SqueezeBackward4")
        q = ops.new_full(input, (), float(q)) if input.dtype.category == FLOATING else ops.full((), float(q))
    _check_quantile(name, input, q, interpolation)
    ndim = input._array.ndim
    if dim is None:
        rows, dims = ops.reshape(input, -1), range(ndim)
    else:
        dim = wrap_dim(dim, ndim)
        rows, dims = ops.movedim(ops.reshape(input, (1,)) if not ndim else input, dim, -1), (dim,)  # type: ignore[assignment]
    ordered = ops.sort(rows, -1).values
    n = ordered._array.shape[-1]
    missing = ops.isnan(ops.detach(ordered))
    points = ops.reshape(q, (-1,))
    if skip:
        last = n - 1 - ops.sum(missing, -1, True)
        ranks = ops.clamp(points * last, min=0)
    else:
        # NaN are sorted last: where there is one, the last element is the result
        ranks = ops.where(ops.any(missing, -1, True), float(n - 1), points * (n - 1))
    made = _interpolated(ordered, ops.to_dtype(ranks, input.dtype), interpolation)
    if keepdim and ndim:
        for i in dims:
            made = ops.unsqueeze(made, i)
    made = ops.movedim(made, -1, 0) if q._array.ndim else ops.squeeze(made, -1)
    return relabel(made, "SqueezeBackward4")


def _one_quantile(input: Tensor, q: float, dim: Any, keepdim: bool, interpolation: str) -> Tensor | None:
    """A quantile of a tensor without NaN, for which one rank is that of all rows; None for others, and if a mode is on."""
    x, d = input._array, input.dtype
    if (modes.on | input._k) & ~GRAD or not (d is float32 or d is float64) or not x.size or not x.ndim:
        return None
    place = -1 if dim is None else wrap_dim(dim, x.ndim)
    ordered = ops.sort(ops.reshape(input, -1) if dim is None else input, place).values
    n = ordered._array.shape[place]
    last = ordered._array.take(n - 1, place)
    if (last != last).any():  # NaN are sorted last
        return None
    rank = float(d.numpy.type(q) * d.numpy.type(n - 1))
    below = math.floor(rank)
    if interpolation in ("linear", "midpoint"):
        ends = ops.select(ordered, place, below), ops.select(ordered, place, math.ceil(rank))
        made = ops.lerp(*ends, rank - below if interpolation == "linear" else 0.5)
    else:
        at = below if interpolation == "lower" else math.ceil(rank) if interpolation == "higher" else round(rank)
        made = ops.clone(ops.select(ordered, place, at))
    made = ops.contiguous(made)
    if keepdim:
        made = ops.reshape(made, reduced_shape(x.shape, range(x.ndim) if dim is None else (place,), True))
    return made


def _interpolated(ordered: Tensor, ranks: Tensor, interpolation: str) -> Tensor:
    """Elements at ranks that need not be whole."""
    if interpolation in ("lower", "higher", "nearest"):
        rounded: dict[str, Any] = {"lower": ops.floor, "higher": ops.ceil, "nearest": ops.round}
        ranks = rounded[interpolation](ranks)
        return ops.gather(ordered, -1, ops.long(ranks))
    below = ops.floor(ops.detach(ranks))
    low = ops.gather(ordered, -1, ops.long(below))
    high = ops.gather(ordered, -1, ops.long(ops.ceil(ops.detach(ranks))))
    return ops.lerp(low, high, ops.full_like(ranks, 0.5) if interpolation == "midpoint" else ranks - below)


@public(out="exact")
def quantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The q-th quantiles of all elements or along a dimension.

    >>> import flambeau as torch
    >>> torch.quantile(torch.tensor([0.0, 1.0, 2.0]), 0.25)
    tensor(0.5000)
    """
    return _quantile("quantile()", input, q, dim, keepdim, interpolation, False)


@public(out="exact")
def nanquantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The q-th quantiles of the elements that are not NaN.

    >>> import flambeau as torch
    >>> torch.nanquantile(torch.tensor([0.0, float("nan"), 2.0]), 0.5)
    tensor(1.)
    """
    return _quantile("nanquantile()", input, q, dim, keepdim, interpolation, True)


# -- covariances -------------------------------------------------------------------------------------------------


def _observation_weights(count: int, fweights: Any, aweights: Any) -> Any:
    weights = None
    for name, given, integral in (("fweights", fweights, True), ("aweights", aweights, False)):
        if given is None:
            continue
        if given._array.ndim > 1:
            raise RuntimeError(f"cov(): expected {name} to have one or fewer dimensions, got {given._array.ndim}")
        if (given.dtype.category == INTEGER) is not integral or given.dtype.category == BOOL:
            kind = "integral" if integral else "floating point"
            raise RuntimeError(f"cov(): expected {name} to have {kind} dtype but got {name} with {given.dtype} dtype")
        if given._array.size != count:
            raise RuntimeError(f"cov(): expected {name} to have one element for each observation")
        if count and not answer(ops.all(given >= 0), True):
            raise RuntimeError(f"cov(): {name} cannot be negative")
        weights = given if weights is None else weights * given
    return weights


@public(planned=True)
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """The covariances of variables (rows) over observations (columns).

    >>> import flambeau as torch
    >>> torch.cov(torch.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    ndim = input._array.ndim
    if ndim > 2:
        raise RuntimeError(f"cov(): expected input to have two or fewer dimensions, got {ndim}")
    if input.dtype.category == BOOL:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = ops.reshape(input, (1, -1)) if ndim < 2 else input
    count = x._array.shape[1]
    weights = _observation_weights(count, fweights, aweights)
    if x.dtype.category < FLOATING:
        x = ops.to_dtype(x, default.float)
    if weights is None:
        mean, total = ops.mean(x, 1, True), count
        free: Any = count - correction
    else:
        total = ops.sum(weights)
        mean = ops.sum(x * weights, 1, True) / total
        if aweights is None or correction == 0:
            free = total - correction
        else:
            free = total - correction * ops.sum(weights * aweights) / total
    if bool(free <= 0):
        warn_user(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations"
        )
        free = ops.clamp(free, min=0) if isinstance(free, Tensor) else 0
    centred = x - mean
    other = centred if weights is None else centred * weights
    made = ops.matmul(centred, ops.conj(ops.transpose(other, 0, 1))) / free
    return relabel(ops.reshape(made, ()) if made._array.shape == (1, 1) else made, "SqueezeBackward0")


@public()
def corrcoef(input: Tensor) -> Tensor:
    """The correlation coefficients of variables (rows) over observations (columns).

    >>> import flambeau as torch
    >>> torch.corrcoef(torch.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    ndim = input._array.ndim
    if ndim > 2:
        raise RuntimeError(f"corrcoef(): expected input to have two or fewer dimensions, got {ndim}")
    made = cov(input)
    if made._array.ndim == 0:
        return made / made
    deviation = ops.sqrt(ops.real(ops.diagonal(made)))
    made = made / ops.unsqueeze(deviation, 1) / ops.unsqueeze(deviation, 0)
    if made.dtype.category == COMPLEX:
        return ops.complex(ops.clamp(ops.real(made), min=-1, max=1), ops.clamp(ops.imag(made), min=-1, max=1))
    return ops.clamp(made, min=-1, max=1)


SCHEMAS = """
var|std(Tensor self, bool unbiased=True) -> Tensor
var|std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor
var|std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor
var|std.out(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)
var_mean|std_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)
var_mean|std_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)
var_mean|std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)
logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor
quantile|nanquantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation="linear") -> Tensor  # autocast=cpu:single
quantile|nanquantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation="linear") -> Tensor
cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor
corrcoef(Tensor self) -> Tensor
"""
