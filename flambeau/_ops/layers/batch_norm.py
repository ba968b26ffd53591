"""Batch norm: each channel by the statistics of the batch while training, by running ones in evaluation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._backend.copies import row_major
from ..._backend.cpu import cpu
from ..._core.dtypes import FLOATING, dtype, float32, float64
from ..._core.layouts import is_flat
from ..._core.state import AUTOCAST, BATCHED, CAPTURE, CUDA, FUNCTION_MODE, GRAD, META, modes
from ..._tensor import Tensor
from ..basic import in_dtype
from ..folds import row_programs
from ..records.batched_layers import by_channel
from ..records.declare import pointwise
from ..records.out import write_out
from ..records.primitive import primitive
from ..records.rules import floating_only
from ..records.shape_rules import dense, dtype_of, same
from ..registry import ops, public, relabel
from .normalization import check_channels, check_dtypes, gradients_of_norm, more_than_one, number, wide_of

# -- arrays --------------------------------------------------------------------------------------------------------


def _in_columns(x: Any) -> bool:
    """Whether the channels of (N, C, …) lie side by side in memory: no further dimensions, or channels last."""
    if x.ndim == 2 or math.prod(x.shape[2:]) == 1:
        return True
    return not x.flags.c_contiguous and x.ndim > 3 and _turned(x).flags.c_contiguous


def _turned(x: Any) -> Any:
    """(N, …, C) of (N, C, …)."""
    return x.transpose(0, *range(2, x.ndim), 1)


def _like(backend: Any, x: Any, columns: bool) -> Any:
    """A new array of the same shape, and with channels last if `x` has them so."""
    if columns and x.ndim > 3 and not x.flags.c_contiguous:
        shape, last = x.shape, x.ndim - 1
        return backend.empty((shape[0], *shape[2:], shape[1]), x.dtype).transpose(0, last, *range(1, last))
    return backend.empty(x.shape, x.dtype)


def _laid(x: Any, columns: bool) -> Any:
    """An array as a matrix with a column for each channel, or as channels of planes (C, N, L)."""
    shape = x.shape
    if columns:
        if x.ndim == 2:
            return x
        if math.prod(shape[2:]) == 1:
            return x.reshape(shape[0], shape[1])
        return _turned(x).reshape(x.size // max(shape[1], 1), shape[1])
    return x.reshape(shape[0], shape[1], math.prod(shape[2:])).transpose(1, 0, 2)


def _ready(x: Any) -> Any:
    """An array whose memory the kernels can walk."""
    return x if x.flags.c_contiguous or _in_columns(x) else row_major(x)


def _in_steps(backend: Any, given: Any, x: Any) -> bool:
    """Whether PyTorch rounds after every operation: strided 16-bit inputs, on a CPU."""
    return given is not x and x.dtype.itemsize == 2 and backend is cpu


def _step_by_step(x: Any, mean: Any, scale: Any, weight: Any, bias: Any) -> Any:
    """The result for strided 16-bit inputs, which PyTorch rounds after every operation."""
    around = (-1, *[1] * (x.ndim - 2))
    out = (x - mean.astype(x.dtype).reshape(around)) * scale.astype(x.dtype).reshape(around)
    if weight is not None:
        out = out * weight.reshape(around)
    if bias is not None:
        out = out + bias.reshape(around)
    return out.astype(x.dtype, copy=False)


def _or(parameter: Any, value: float) -> Any:
    """A parameter, or the one number that it stands for."""
    return number(value) if parameter is None else parameter


def gradients(
    backend: Any, g: Any, x: Any, weight: Any, mean: Any, scale: Any, fixed: bool = False
) -> tuple[Any, Any, Any]:
    """The gradients by x, weight and bias."""
    given, x = x, _ready(x)
    if _in_steps(backend, given, x) and mean.dtype == x.dtype:
        return _gradients_step_by_step(g, x, weight, mean, scale)
    columns = _in_columns(x)
    out = _like(backend, x, columns)
    channels = x.shape[1]
    d = wide_of(x).numpy if weight is None else weight.dtype
    by_weight, by_bias = backend.empty((channels,), d), backend.empty((channels,), d)
    if not is_flat(g) and g.strides != x.strides:
        held = _like(backend, x, columns)
        held[...] = g
        g = held
    given = _laid(g, columns), _laid(x, columns), _or(weight, 1), mean, scale
    row_programs.channels_backward(backend, *given, [_laid(out, columns), by_weight, by_bias], fixed, columns)
    return out, by_weight, by_bias


def _gradients_step_by_step(g: Any, x: Any, weight: Any, mean: Any, scale: Any) -> tuple[Any, Any, Any]:
    """The gradients for strided 16-bit inputs, with PyTorch's roundings."""
    d, wide = x.dtype, np.float32
    around = (-1, *[1] * (x.ndim - 2))
    dims = (0, *range(2, x.ndim))
    count = wide(x.size // x.shape[1])
    away = x - mean.reshape(around)
    first, second = (a.astype(wide).sum(dims) for a in (g, g * away))
    level = (first.astype(d).astype(wide) / count).astype(d).reshape(around)
    slope = (((second.astype(d) * scale) * scale).astype(wide) / count).astype(d).reshape(around)
    out = ((g - level) - away * slope) * scale.reshape(around)
    out = out if weight is None else out * weight.reshape(around)
    return out, (second * scale.astype(wide)).astype(d), first.astype(d)


# -- records -------------------------------------------------------------------------------------------------------


def _grad(given: Any, others: Any, x: Any, weight: Any, eps: float, needs: Any) -> Any:
    if given[0] is None:
        return [None] * 5
    return *batch_norm_back(given[0], x, weight, others[0], others[1], eps, False, tuple(needs[:3])), None, None


def _like_shape(x: Any) -> Any:
    return dense(x) if x.ndim > 3 and _in_columns(x) else same(x)


def _shapes(x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, *rest: Any) -> list[Any]:
    kept, channels = dtype_of(x if weight is None else weight), x.shape[1:2]
    moved = [(channels, wide_of(x) if a is None else dtype_of(a)) for a in (running_mean, running_var)]
    return [_like_shape(x), (channels, kept), (channels, kept), *moved]


@primitive(
    batch=by_channel(1, 2, 3, 4),
    meta=_shapes,
    tensors=5,
    name="batch_norm",
    grad=_grad,
    backward_name="NativeBatchNormBackward0",
    planned=True,
)
def batch_norm_op(
    backend: Any, x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, momentum: float, eps: float
) -> Any:
    """The result, means and factors of the channels; running statistics, which begin at zero where there are none, moved towards the batch's
    means and unbiased variances by a share of `momentum`."""
    given, x = x, _ready(x)
    rounded, steps = given is x and backend is cpu, _in_steps(backend, given, x)
    columns = _in_columns(x)
    out = _like(backend, x, columns)
    channels = x.shape[1]
    kept = x.dtype if weight is None else weight.dtype
    mean, scale = backend.empty((channels,), kept), backend.empty((channels,), kept)
    running = [number(0.0) if a is None else a for a in (running_mean, running_var)]
    moved = [backend.empty((channels,), a.dtype if a.ndim else wide_of(x).numpy) for a in running]
    outs = [_laid(out, columns), mean, scale, *moved]
    given = _laid(x, columns), _or(weight, 1), _or(bias, 0), running, momentum, eps
    row_programs.channels(backend, *given, outs, rounded, columns)
    if steps:
        out = _step_by_step(x, mean, scale, weight, bias)
    return out, mean, scale, *moved


def _gradient_shapes(cotangent: Any, x: Any, weight: Any, *rest: Any) -> list[Any]:
    d = dtype_of(x if weight is None else weight)
    made = _like_shape(x), (x.shape[1:2], d), (x.shape[1:2], d)
    return [m if want else None for m, want in zip(made, rest[-1])]


def _backward_formula(
    cotangent: Tensor, x: Tensor, weight: Tensor | None, mean: Tensor, scale: Tensor, eps: float, fixed: bool, wanted: Any
) -> tuple[Any, ...]:  # fmt: skip
    """What `batch_norm_back` computes, over tensors."""
    over, around = (0, *range(2, x._array.ndim)), (-1, *[1] * (x._array.ndim - 2))
    g = cotangent if weight is None else cotangent * ops.reshape(weight, around)
    if fixed:
        factor = ops.reshape(ops.detach(scale), around)
        values, by_x = (x - ops.reshape(ops.detach(mean), around)) * factor, g * factor
    else:
        values, by_x = gradients_of_norm(g, x, over, eps)
    by_weight = ops.sum(cotangent * values, over) if wanted[1] else None
    return by_x if wanted[0] else None, by_weight, ops.sum(cotangent, over) if wanted[2] else None


@primitive(
    batch=by_channel(2, 3, 4), meta=_gradient_shapes, tensors=5, name="batch_norm_backward", formula=_backward_formula
)
def batch_norm_back(
    backend: Any, cotangent: Any, x: Any, weight: Any, mean: Any, scale: Any, eps: float, fixed: bool, wanted: Any
) -> Any:
    """The gradients by x, weight and bias, as far as `wanted`; `fixed` statistics do not depend on x."""
    made = gradients(backend, cotangent, x, weight, mean, scale, fixed)
    return tuple(a if want else None for a, want in zip(made, wanted))


def _given_grad(g: Any, x: Any, mean: Any, variance: Any, weight: Any, eps: float, needs: Any) -> Any:
    scale = ops.reciprocal(ops.sqrt(ops.add(ops.to_dtype(variance, float64), eps)))
    wanted = needs[0], *needs[3:]
    given = [in_dtype(t, float32 if x.dtype.itemsize == 2 else x.dtype) for t in (mean, scale)]
    by_x, *rest = batch_norm_back(g, x, weight, *given, eps, True, wanted)
    return by_x, None, None, *rest


@primitive(
    batch=by_channel(1, 2, 3, 4),
    meta=lambda x, *rest: _like_shape(x),
    tensors=5,
    name="batch_norm_given",
    grad=_given_grad,
    backward_name="NativeBatchNormBackward0",
    planned=True,
)
def given_op(backend: Any, x: Any, mean: Any, variance: Any, weight: Any, bias: Any, eps: float) -> Any:
    """The result by given statistics, which do not require gradients."""
    x = _ready(x)
    columns = _in_columns(x)
    out = _like(backend, x, columns)
    given = [_laid(x, columns), mean, variance, _or(weight, 1), _or(bias, 0)]
    dims = (0,) if columns else (1, 2)
    backend.along.run("given_norm", row_programs.GIVEN, given, [_laid(out, columns)], dims, (eps,))
    return out


# -- functions -----------------------------------------------------------------------------------------------------

_scale_shift = pointwise(
    "scale_shift", lambda m, x, a, b: x * a + b, floating_only,
    {"x": lambda m, g, a: g * m.conj(a), "a": lambda m, g, x: g * m.conj(x), "b": lambda m, g: g},
    public=False, numbers="none", backward_name="NativeBatchNormBackward0",
)  # fmt: skip


def with_given(
    input: Tensor, mean: Tensor, variance: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    """Normalized by statistics that are known: a factor and a summand for each channel."""
    k = modes.on
    for t in (input, mean, variance, weight, bias):
        if t is not None:
            k |= t._k
    usual = not k & ~(GRAD | META | CAPTURE | CUDA | FUNCTION_MODE) and not (mean._k | variance._k) & GRAD
    if usual and (input.dtype.itemsize > 2 or k & CUDA):
        return given_op(input, mean, variance, weight, bias, eps)
    return _by_operations(input, mean, variance, weight, bias, eps)


def _by_operations(
    input: Tensor, mean: Tensor, variance: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    if mean.dtype.itemsize == 2:
        mean, variance = ops.to_dtype(mean, float32), ops.to_dtype(variance, float32)
    factor = ops.rsqrt(variance + eps)
    if weight is not None:
        factor = factor * weight
    summand = -mean * factor
    if bias is not None:
        summand = summand + bias
    shape = (-1, *[1] * (input._array.ndim - 2))
    out = _scale_shift(input, ops.reshape(factor, shape), ops.reshape(summand, shape))
    return in_dtype(out, input.dtype)


def follow(running: Tensor | None, value: Tensor, momentum: float) -> None:
    """running = (1 - momentum) * running + momentum * value, in place and without history."""
    if running is not None:
        held = ops.detach(running)
        _renew(running, (1 - momentum) * held + momentum * value)


def _renew(running: Tensor, moved: Tensor) -> None:
    held = ops.detach(running) if running._k else running
    if moved._k & BATCHED:
        ops.copy_(held, moved)
    else:  # like an out= argument: also if a function under a transform captured it
        write_out(held, moved, "batch_norm")


def _batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
) -> tuple[Any, Any, Any]:  # fmt: skip
    shape = input._array.shape
    if not input._array.size:
        made = ops.clone(input)
        for t, combine in ((weight, ops.mul), (bias, ops.add)):  # their gradients are zeros
            if t is not None and shape[1:] and t._array.shape == shape[1:2]:
                made = combine(made, ops.reshape(t, (1, -1) + (1,) * (len(shape) - 2)))
        made = relabel(made, "NativeBatchNormBackward0")
        nothing = ops.zeros((0,), dtype=input.dtype, device=input.device)
        return made, nothing, ops.clone(nothing)
    if len(shape) < 2:
        raise RuntimeError(f"batch_norm: expected at least 2 dimensions, got {len(shape)}")
    count, d = shape[1], input.dtype
    usual = d.category == FLOATING
    for t in (weight, bias, running_mean, running_var):
        if t is not None and (t._array.size != count or t.dtype is not d):
            usual = False
    if not usual:
        check_channels("batch_norm", count, weight, bias, running_mean, running_var)
        check_dtypes("batch_norm", input, weight, bias)
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError("running_mean and running_var must be defined in evaluation mode")
        return with_given(input, running_mean, running_var, weight, bias, eps), None, None
    k = modes.on
    for t in (input, weight, bias, running_mean, running_var):
        if t is not None:
            k |= t._k
    if k & ~(AUTOCAST | CAPTURE | CUDA | FUNCTION_MODE | META) <= GRAD:
        out, mean, scale, *moved = batch_norm_op(input, weight, bias, running_mean, running_var, momentum, eps)
        for t, new in zip((running_mean, running_var), moved):
            if t is not None:
                _renew(t, new)
        return out, mean, scale
    out, mean, scale, _, unbiased = batch_norm_op(input, weight, bias, None, None, 1.0, eps)
    follow(running_mean, ops.detach(mean), momentum)
    follow(running_var, ops.detach(unbiased), momentum)
    return out, mean, scale


@public("batch_norm", method=False)
def batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """`nn.functional.batch_norm` with its arguments in another order."""
    return _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


@public("nn.functional.batch_norm", method=False, planned=True, writes=("running_mean", "running_var"))
def functional_batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
    bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Normalizes each channel over the batch; while training, the running statistics are updated in place.

    >>> import flambeau as torch
    >>> torch.nn.functional.batch_norm(torch.tensor([[1.0], [3.0]]), None, None, training=True)
    tensor([[-1.0000],
            [ 1.0000]])
    """
    if training:
        if input._array.ndim > 1:
            more_than_one(input._array.shape)
        if eps <= 0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    elif eps < 0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    return _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


@public(method=False, out=True)
def native_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Batch norm with the means and the reciprocals of the standard deviations it used (empty in evaluation)."""
    out, mean, scale = _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)
    d: dtype = input.dtype if weight is None or weight.dtype is input.dtype else float32
    if mean is None:
        kind = d if weight is not None or input.dtype.itemsize > 2 else float32
        nothing = ops.zeros((0,), dtype=kind, device=input.device)
        return out, nothing, ops.clone(nothing)
    return out, in_dtype(ops.detach(mean), d), in_dtype(ops.detach(scale), d)


SCHEMAS = """
batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor  # autocast=whole
native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)
native_batch_norm.out(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps, *, Tensor(a!) out, Tensor(b!) save_mean, Tensor(c!) save_invstd) -> (Tensor(a!), Tensor(b!), Tensor(c!))
batch_norm_backward  # record=native_batch_norm_backward
"""
