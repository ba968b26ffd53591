"""Batch norm: each channel by the statistics of the batch while training, by running ones in evaluation."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .._backend import threads
from .._backend.cpu import cpu
from .._core.allocation import empty
from .._core.dtypes import BY_NUMPY, FLOATING, dtype, float32
from .._core.state import BATCHED, CUDA, GRAD, META, local, modes
from .._kernel.batch_norm import (
    batch_norm_columns,
    batch_norm_columns_backward,
    batch_norm_planes,
    batch_norm_planes_backward,
    batch_norm_planes_backward_flat,
    given_columns,
    given_planes,
)
from .._tensor import Tensor, bump, wrap
from .basic import in_dtype
from .batched_layers import by_channel
from .declare import pointwise
from .fused import Fused, is_flat, parts_of, record, side_by_side
from .inplace import check_writable, write_out
from .normalization import (
    WORK,
    check_channels,
    check_dtypes,
    composed,
    filled,
    more_than_one,
    number,
)
from .primitive import primitive
from .registry import ops, public, relabel
from .replay import gradients as replayed
from .replay import second
from .rules import floating_only
from .saved import fetch
from .shape_rules import dense, dtype_of, same

_LINE = 16  # channels that a thread takes at least, where channels lie side by side


# -- arrays --------------------------------------------------------------------------------------------------------


def _in_columns(x: Any) -> bool:
    """Whether the channels of (N, C, …) lie side by side in memory: no further dimensions, or channels last."""
    if x.ndim == 2 or math.prod(x.shape[2:]) == 1:
        return True
    return not x.flags.c_contiguous and x.ndim > 3 and np.moveaxis(x, 1, -1).flags.c_contiguous


def _like(x: Any, columns: bool) -> Any:
    """A new array of the same shape, and with channels last if `x` has them so."""
    if columns and x.ndim > 3 and not x.flags.c_contiguous:
        shape = x.shape
        return np.moveaxis(empty((shape[0], *shape[2:], shape[1]), x.dtype), -1, 1)
    return empty(x.shape, x.dtype)


def _laid(x: Any, columns: bool) -> Any:
    """An array as a matrix with a column for each channel, or as channels of planes (C, N, L)."""
    shape = x.shape
    if columns:
        if x.ndim == 2:
            return x
        if math.prod(shape[2:]) == 1:
            return x.reshape(shape[0], shape[1])
        return np.moveaxis(x, 1, -1).reshape(-1, shape[1])
    return x.reshape(shape[0], shape[1], -1).transpose(1, 0, 2)


def _ready(x: Any) -> Any:
    """An array whose memory the kernels can walk."""
    return x if x.flags.c_contiguous or _in_columns(x) else np.ascontiguousarray(x)


def _run(call: Any, columns: bool, arrays: list[Any], outs: list[Any], size: int) -> None:
    """Runs a kernel over all channels, split over the threads."""
    if not columns:
        cpu.rows(call, arrays, outs, size * WORK)
        return
    channels = outs[0].shape[1]
    cuts = parts_of(channels, size * WORK, max(_LINE, channels // threads.get_num_threads()))
    if len(cuts) == 1:
        call(*arrays, *outs)
        return
    every = [*arrays, *outs]
    side_by_side(call, [[a[..., low:high] if a.ndim else a for a in every] for low, high in cuts])


@functools.cache
def _forward_kernel(
    columns: bool, x: Any, weight: Any, bias: Any, kept: Any, mean: Any, variance: Any, track: bool, rounded: bool
) -> Any:
    """The kernel for the dtypes of its operands."""
    one, two, three, four, five, six = (BY_NUMPY[d].code for d in (x, weight, bias, kept, mean, variance))
    types = (one, two, three, "f64", "f64", one, four, four, five, six)
    return cpu.kernel(batch_norm_columns if columns else batch_norm_planes, types, track=track, rounded=rounded)


def normalized(
    x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, momentum: float, eps: float, track: bool
) -> tuple[Any, Any, Any]:
    """The result, the means and the factors of the channels; moves the running statistics with `track`."""
    given, x = x, _ready(x)
    rounded = given is x
    columns = _in_columns(x)
    out = _like(x, columns)
    channels = x.shape[1]
    kept = x.dtype if weight is None else weight.dtype
    mean, scale = np.empty(channels, kept), np.empty(channels, kept)
    if not track:
        running_mean, running_var = np.empty(channels, kept), np.empty(channels, kept)
    w, b = filled(weight, channels, 1, x), filled(bias, channels, 0, x)
    call = _forward_kernel(
        columns, x.dtype, w.dtype, b.dtype, kept, running_mean.dtype, running_var.dtype, track, rounded
    )
    arrays = [_laid(x, columns), w, b, number(eps), number(momentum)]
    _run(call, columns, arrays, [_laid(out, columns), mean, scale, running_mean, running_var], x.size)
    if not rounded and x.dtype.itemsize == 2:
        out = _step_by_step(x, mean, scale, weight, bias)
    return out, mean, scale


def _step_by_step(x: Any, mean: Any, scale: Any, weight: Any, bias: Any) -> Any:
    """The result for strided 16-bit inputs, which PyTorch rounds after every operation."""
    around = (-1, *[1] * (x.ndim - 2))
    out = (x - mean.astype(x.dtype).reshape(around)) * scale.astype(x.dtype).reshape(around)
    if weight is not None:
        out = out * weight.reshape(around)
    if bias is not None:
        out = out + bias.reshape(around)
    return out.astype(x.dtype, copy=False)


@functools.cache
def _backward_kernel(columns: bool, flat: bool, g: Any, x: Any, weight: Any, kept: Any, fixed: bool) -> Any:
    zero, one, two, three = (BY_NUMPY[d].code for d in (g, x, weight, kept))
    kind = batch_norm_columns_backward if columns else batch_norm_planes_backward
    return cpu.kernel(
        batch_norm_planes_backward_flat if flat else kind, (zero, one, two, three, three, one, two, two), fixed=fixed
    )


def gradients(g: Any, x: Any, weight: Any, mean: Any, scale: Any, fixed: bool = False) -> tuple[Any, Any, Any]:
    """The gradients by x, weight and bias."""
    given, x = x, _ready(x)
    if given is not x and x.dtype.itemsize == 2 and mean.dtype == x.dtype:
        return _gradients_step_by_step(g, x, weight, mean, scale)
    columns = _in_columns(x)
    out = _like(x, columns)
    channels = x.shape[1]
    w = filled(weight, channels, 1, x)
    by_weight, by_bias = np.empty(channels, w.dtype), np.empty(channels, w.dtype)
    flat = not columns and is_flat(g)
    if flat:
        g = g.reshape(-1)[:1].reshape(())
    elif g.strides != x.strides:
        held = _like(x, columns)
        held[...] = g
        g = held
    call = _backward_kernel(columns, flat, g.dtype, x.dtype, w.dtype, mean.dtype, fixed)
    arrays = [g if flat else _laid(g, columns), _laid(x, columns), w, mean, scale]
    _run(call, columns, arrays, [_laid(out, columns), by_weight, by_bias], x.size)
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


@functools.cache
def _given_kernel(columns: bool, x: Any, mean: Any, variance: Any, weight: Any, bias: Any) -> Any:
    one, two, three, four, five = (BY_NUMPY[d].code for d in (x, mean, variance, weight, bias))
    return cpu.kernel(given_columns if columns else given_planes, (one, two, three, four, five, "f64", one))


def _by_given(x: Any, mean: Any, variance: Any, weight: Any, bias: Any, eps: float) -> Any:
    """The result with given statistics."""
    x = _ready(x)
    columns = _in_columns(x)
    out = _like(x, columns)
    count = x.shape[1]
    given = [filled(a, count, v, x) for a, v in ((mean, 0), (variance, 1), (weight, 1), (bias, 0))]
    call = _given_kernel(columns, x.dtype, *[a.dtype for a in given])
    _run(call, columns, [_laid(x, columns), *given, number(eps)], [_laid(out, columns)], x.size)
    return out


# -- records -------------------------------------------------------------------------------------------------------


def _formula(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """What the kernels compute, over tensors."""
    shape = x._array.shape
    dims = (0, *range(2, len(shape)))
    x = x - ops.mean(x, dims, True)
    out = x * ops.rsqrt(ops.mean(x * x, dims, True) + eps)
    around = (1, shape[1], *[1] * (len(shape) - 2))
    out = out if weight is None else out * ops.reshape(weight, around)
    return out if bias is None else out + ops.reshape(bias, around)


def _grad(gs: Any, outs: Any, x: Any, weight: Any, eps: float, needs: Any) -> Any:
    return batch_norm_back(gs[0], x, weight, outs[1], outs[2], eps, tuple(needs))


def _like_shape(x: Any) -> Any:
    return dense(x) if _in_columns(x) else same(x)


def _shapes(x: Any, weight: Any, bias: Any, eps: float) -> list[Any]:
    kept, channels = dtype_of(x if weight is None else weight), x.shape[1:2]
    return [_like_shape(x), (channels, kept), (channels, kept), (channels, kept)]


@primitive(
    batch=by_channel(1, 2),
    meta=_shapes,
    tensors=3,
    name="batch_norm",
    grad=_grad,
    backward_name="NativeBatchNormBackward0",
)
def batch_norm_op(backend: Any, x: Any, weight: Any, bias: Any, eps: float) -> Any:
    """The result, means, factors and unbiased variances of the channels."""
    d = x.dtype if x.dtype.itemsize > 2 else np.dtype(np.float32)
    held = np.zeros(x.shape[1], d), np.zeros(x.shape[1], d)
    return *normalized(x, weight, bias, *held, 1.0, eps, True), held[1]


def _second(gs: Any, cotangent: Any, x: Any, weight: Any, eps: float, wanted: Any, needs: Any) -> Any:
    tensors = [x, weight] if weight is not None else [x]

    def formula(x: Tensor, weight: Tensor | None = None) -> Tensor:
        return _formula(x, weight, None, eps)

    found = second(formula, tensors, cotangent, wanted[: len(tensors)], gs, needs[: 1 + len(tensors)])
    if len(gs) > 2 and gs[2] is not None and wanted[2] and needs[0]:  # the gradient by the bias is a plain sum
        shape = (1, -1, *[1] * (x._array.ndim - 2))
        more = ops.expand_as(ops.reshape(gs[2], shape), cotangent)
        found[0] = more if found[0] is None else found[0] + more
    return [*found, *[None] * (5 - len(found))]


def _gradient_shapes(cotangent: Any, x: Any, weight: Any, *rest: Any) -> list[Any]:
    d = dtype_of(x if weight is None else weight)
    made = _like_shape(x), (x.shape[1:2], d), (x.shape[1:2], d)
    return [m if want else None for m, want in zip(made, rest[-1])]


@primitive(batch=by_channel(2, 3, 4), meta=_gradient_shapes, tensors=5, name="batch_norm_backward", grad=_second)
def batch_norm_back(
    backend: Any, cotangent: Any, x: Any, weight: Any, mean: Any, scale: Any, eps: float, wanted: Any
) -> Any:
    """The gradients by x, weight and bias, as far as `wanted`."""
    made = gradients(cotangent, x, weight, mean, scale)
    return tuple(a if want else None for a, want in zip(made, wanted))


def _gradient(node: Any, g: Tensor, create_graph: bool) -> Any:
    x, weight = fetch(node, 0), fetch(node, 1)
    mean, scale, eps, bias_dtype = node.saved[2:]
    needs = [e is not None for e in node.edges]
    if create_graph or g._k & ~GRAD:
        kept = BY_NUMPY[mean.dtype]
        return batch_norm_back(g, x, weight, wrap(mean, kept), wrap(scale, kept), eps, tuple(needs))
    made = gradients(g._array, x._array, None if weight is None else weight._array, mean, scale)
    if needs[2] and made[2].dtype != bias_dtype:
        made = (*made[:2], made[2].astype(bias_dtype))
    return [wrap(a, BY_NUMPY[a.dtype]) if need else None for a, need in zip(made, needs)]


_FUSED = Fused("batch_norm", "NativeBatchNormBackward0", _gradient)


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
    if k <= GRAD and not (mean._k | variance._k) and input.dtype.itemsize > 2:
        weights, biases = (None if t is None else t._array for t in (weight, bias))
        result = wrap(_by_given(input._array, mean._array, variance._array, weights, biases, eps), input.dtype)
        if k and local.grad:
            record(_FIXED, result, (input, weight, bias), [input, weight, mean, variance, bias, eps])
        return result
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


def _fixed_gradient(node: Any, g: Tensor, create_graph: bool) -> Any:
    input, weight, mean, variance, bias = (fetch(node, i) for i in range(5))
    eps = node.saved[5]
    needs = [e is not None for e in node.edges]
    if create_graph or g._k & ~GRAD:

        def function(x: Tensor, w: Tensor | None, b: Tensor | None) -> Tensor:
            return _by_operations(x, mean, variance, w, b, eps)

        return replayed(function, [input, weight, bias], [g], needs)
    d = input._array.dtype
    scale = (1.0 / np.sqrt(variance._array.astype(np.float64) + eps)).astype(d)
    means = np.ascontiguousarray(mean._array, d)
    made = gradients(g._array, input._array, None if weight is None else weight._array, means, scale, True)
    return [wrap(a, BY_NUMPY[a.dtype]) if need else None for a, need in zip(made, needs)]


_FIXED = Fused("batch_norm", "NativeBatchNormBackward0", _fixed_gradient)


def follow(running: Tensor | None, value: Tensor, momentum: float) -> None:
    """running = (1 - momentum) * running + momentum * value, in place and without history."""
    if running is not None:
        held = ops.detach(running)
        moved = (1 - momentum) * held + momentum * value
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
        return made, ops.zeros((0,), dtype=input.dtype), ops.zeros((0,), dtype=input.dtype)
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
    if k <= GRAD:
        return _trained(input, weight, bias, running_mean, running_var, momentum, eps, k)
    if k & (CUDA | META):
        mean, variance = (ops.detach(f(input)) for f in (_mean, _variance))
        out, scale = composed(_formula, input, weight, bias, eps), ops.rsqrt(variance + eps)
        count = input._array.size // shape[1]
        unbiased = variance * (count / max(count - 1, 1))
    else:
        out, mean, scale, unbiased = batch_norm_op(input, weight, bias, eps)
        mean, unbiased = ops.detach(mean), ops.detach(unbiased)
    follow(running_mean, mean, momentum)
    follow(running_var, unbiased, momentum)
    return out, mean, scale


def _over(input: Tensor) -> tuple[int, ...]:
    return (0, *range(2, input._array.ndim))


def _mean(input: Tensor) -> Tensor:
    return ops.mean(input, _over(input))  # type: ignore[no-any-return]


def _variance(input: Tensor) -> Tensor:
    return ops.var(input, _over(input), correction=0)  # type: ignore[no-any-return]


def _trained(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, momentum: float, eps: float, k: int,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Plain tensors: statistics, running statistics and result come from one kernel."""
    held: list[Any] = []
    for t in (running_mean, running_var):
        if t is not None:
            check_writable(ops.detach(t) if t._k else t, captured=True)
            bump(t)
        held.append(None if t is None else t._array)
    track = running_mean is not None or running_var is not None
    if track:  # one of the two may be missing
        count = input._array.shape[1]
        held = [np.zeros(count, np.float64) if a is None else a for a in held]
        moved = [a if a.strides == (a.itemsize,) else a.copy() for a in held]
    else:
        moved = held
    out, mean, scale = normalized(
        input._array, None if weight is None else weight._array, None if bias is None else bias._array, moved[0], moved[1],
        momentum, eps, track,
    )  # fmt: skip
    for a, b in zip(held, moved):
        if a is not b:
            a[...] = b
    result = wrap(out, input.dtype)
    kept = BY_NUMPY[mean.dtype]
    if k and local.grad:
        record(
            _FUSED,
            result,
            (input, weight, bias),
            [input, weight, mean, scale, eps, None if bias is None else bias._array.dtype],
        )
    return result, wrap(mean, kept), wrap(scale, kept)


@public("batch_norm", method=False)
def batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """`nn.functional.batch_norm` with its arguments in another order."""
    return _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]  # type: ignore[no-any-return]


@public("nn.functional.batch_norm", method=False)
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
    return _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]  # type: ignore[no-any-return]


@public(method=False, out=True)
def native_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Batch norm with the means and the reciprocals of the standard deviations it used (empty in evaluation)."""
    out, mean, scale = _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)
    d: dtype = input.dtype if weight is None or weight.dtype is input.dtype else float32
    if mean is None:
        nothing = ops.zeros((0,), dtype=d if weight is not None or input.dtype.itemsize > 2 else float32)
        return out, nothing, ops.clone(nothing)
    return out, in_dtype(ops.detach(mean), d), in_dtype(ops.detach(scale), d)


SCHEMAS = """
batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor  # autocast=whole
native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)
native_batch_norm.out(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps, *, Tensor(a!) out, Tensor(b!) save_mean, Tensor(c!) save_invstd) -> (Tensor(a!), Tensor(b!), Tensor(c!))
batch_norm_backward  # record=native_batch_norm_backward
"""
