"""Normalization by statistics of rows, groups, instances and batches: one fused kernel each way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._backend import threads
from .._backend.cpu import PARALLEL, cpu
from .._core.dtypes import BY_NUMPY, COMPLEX, FLOATING, dtype, float32
from .._core.info import finfo
from .._core.state import CUDA, META
from .._kernel.norm import norm_blocks, norm_blocks_backward, norm_rows, norm_rows_backward, norm_weights_backward
from .._tensor import Tensor, bump
from .declare import pointwise
from .inplace import check_writable
from .primitive import primitive
from .registry import functions, ops, public
from .replay import second
from .rules import floating_only, not_implemented

_WORK = 2  # a normalized element costs as much as so many moved ones


def _code(array: Any) -> str:
    return BY_NUMPY[array.dtype].code


def _wide(array: Any) -> dtype:
    return BY_NUMPY[array.dtype].wide


def _statistics(x: Any, weight: Any) -> dtype:
    """The dtype of means and factors: that of the input, or of parameters that are wider."""
    return BY_NUMPY[x.dtype] if weight is None or weight.dtype == x.dtype else BY_NUMPY[weight.dtype]


def _filled(given: Any, count: int, value: float, like: Any) -> Any:
    """A parameter as a dense vector, of ones or zeros if there is none."""
    if given is None:
        return np.full(count, value, _wide(like).numpy)
    return np.ascontiguousarray(given.reshape(count))


# -- rows: layer norm, rms norm ------------------------------------------------------------------------------------


def _rows_formula(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, center: bool) -> Tensor:
    """What the kernels compute, over tensors; x is a matrix."""
    if center:
        x = x - ops.mean(x, 1, True)
    out = x * ops.rsqrt(ops.mean(x * x, 1, True) + eps)
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


def _rows_grad(gs: Any, outs: Any, x: Any, weight: Any, eps: float, center: bool, needs: Any) -> Any:
    return norm_rows_back(gs[0], x, weight, outs[1], outs[2], eps, center, tuple(needs))


@primitive(tensors=3, name="norm_rows", grad=_rows_grad, backward_name="NativeLayerNormBackward0")
def norm_rows_op(backend: Any, x: Any, weight: Any, bias: Any, eps: float, center: bool) -> Any:
    """The rows of a matrix normalized; their means and the factors they were multiplied by."""
    rows, count = x.shape
    wide = _statistics(x, weight)
    out = np.empty(x.shape, x.dtype)
    mean, scale = np.empty(rows, wide.numpy), np.empty(rows, wide.numpy)
    weight, bias = _filled(weight, count, 1, x), _filled(bias, count, 0, x)
    types = (_code(x), _code(weight), _code(bias), "f64", _code(x), wide.code, wide.code)
    call = cpu.kernel(norm_rows, types, center=center)
    parts = threads.ranges(rows) if x.size * _WORK >= PARALLEL else [(0, rows)]
    level = np.float64(eps)
    threads.run([
        lambda a=a, b=b: call(x[a:b], weight, bias, level, out[a:b], mean[a:b], scale[a:b]) for a, b in parts
    ])  # fmt: skip
    return out, mean, scale


def _rows_second(
    gs: Any, cotangent: Any, x: Any, weight: Any, eps: float, center: bool, wanted: Any, needs: Any
) -> Any:
    tensors = [x, weight] if weight is not None else [x]

    def formula(x: Tensor, weight: Tensor | None = None) -> Tensor:
        return _rows_formula(x, weight, None, eps, center)

    found = second(formula, tensors, cotangent, wanted[: len(tensors)], gs, needs[: 1 + len(tensors)])
    if len(gs) > 2 and gs[2] is not None and wanted[2] and needs[0]:  # the gradient by the bias is a plain sum
        more = ops.expand_as(gs[2], cotangent)
        found[0] = more if found[0] is None else found[0] + more
    return [*found, *[None] * (5 - len(found))]


@primitive(tensors=5, name="norm_rows_backward", grad=_rows_second)
def norm_rows_back(
    backend: Any, cotangent: Any, x: Any, weight: Any, mean: Any, scale: Any, eps: float, center: bool, wanted: Any
) -> Any:
    """The gradients by x, weight and bias, as far as `wanted`."""
    rows, count = x.shape
    wide = _wide(x)
    parts = threads.ranges(rows) if x.size * _WORK >= PARALLEL else [(0, rows)]
    dx = None
    if wanted[0]:
        dx = np.empty(x.shape, x.dtype)
        w = _filled(weight, count, 1, x)
        types = (_code(cotangent), _code(x), _code(w), _code(mean), _code(scale), _code(x))
        call = cpu.kernel(norm_rows_backward, types, center=center)
        threads.run([
            lambda a=a, b=b: call(cotangent[a:b], x[a:b], w, mean[a:b], scale[a:b], dx[a:b]) for a, b in parts
        ])  # fmt: skip
    dw = db = None
    if wanted[1] or wanted[2]:
        sums = np.empty((2, len(parts), count), np.float64)
        call = cpu.kernel(norm_weights_backward, (_code(cotangent), _code(x), _code(mean), _code(scale), "f64", "f64"))
        threads.run([
            lambda i=i, a=a, b=b: call(cotangent[a:b], x[a:b], mean[a:b], scale[a:b], sums[0, i], sums[1, i])
            for i, (a, b) in enumerate(parts)
        ])  # fmt: skip
        totals = sums.sum(1).astype(wide.numpy)
        dw, db = (totals[0] if wanted[1] else None), (totals[1] if wanted[2] else None)
    return dx, dw, db


def _elsewhere(*tensors: Any) -> bool:
    return any(isinstance(t, Tensor) and t._k & (CUDA | META) for t in tensors)


def _composed(formula: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, *args: Any) -> Tensor:
    """A formula over tensors; 16-bit floats are computed with as float32 and rounded once."""
    d = x.dtype
    if d.itemsize > 2:
        return formula(x, weight, bias, *args)  # type: ignore[no-any-return]
    wide = [None if t is None else ops.to_dtype(t, float32) for t in (x, weight, bias)]
    return ops.to_dtype(formula(*wide, *args), d)  # type: ignore[no-any-return]


def _check_row_shape(name: str, input: Tensor, shape: Sequence[int], *parameters: Tensor | None) -> tuple[int, ...]:
    shape = tuple(shape)
    have = input._array.shape
    if not shape:
        raise RuntimeError(
            f"Expected normalized_shape to be at least 1-dimensional, but got normalized_shape = {list(shape)}"
        )
    for kind, t in zip(("weight", "bias"), parameters):
        if t is not None and t._array.shape != shape:
            raise RuntimeError(
                f"Expected {kind} to be of same shape as normalized_shape, but got {kind} of shape "
                f"{list(t._array.shape)} and normalized_shape = {list(shape)}"
            )
    if len(have) < len(shape) or have[len(have) - len(shape) :] != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*, {', '.join(map(str, shape))}], "
            f"but got input of size{list(have)}"
        )
    return shape


def _check_dtypes(name: str, input: Tensor, *parameters: Tensor | None) -> None:
    if input.dtype.category != FLOATING:
        raise not_implemented(name, input.dtype)
    for t in parameters:
        if t is not None and t.dtype is not input.dtype and not (input.dtype.itemsize == 2 and t.dtype is float32):
            raise RuntimeError(
                f"mixed dtype (CPU): expect parameter to have scalar type of {input.dtype}, got {t.dtype}"
            )


def _rows_of(
    input: Tensor, shape: tuple[int, ...], weight: Tensor | None, bias: Tensor | None, eps: float, center: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The result in the shape of the input, means and factors of the rows."""
    count = math.prod(shape)
    have = input._array.shape
    flat = input if len(have) == 2 and len(shape) == 1 else ops.reshape(input, (-1 if input._array.size else 0, count))
    w, b = (None if t is None else ops.reshape(t, (count,)) for t in (weight, bias))
    if _elsewhere(input):
        out, mean, scale = _composed(_rows_formula, flat, w, b, eps, center), None, None
    else:
        if flat._array.strides[-1] != flat._array.itemsize and flat._array.size:
            flat = ops.contiguous(flat)
        out, mean, scale = norm_rows_op(flat, w, b, eps, center)
    return out if out._array.shape == have else ops.reshape(out, have), mean, scale


@public("layer_norm", method=False)
def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5, cudnn_enable: bool = True,
) -> Tensor:  # fmt: skip
    """`nn.functional.layer_norm`."""
    shape = _check_row_shape("layer_norm", input, normalized_shape, weight, bias)
    _check_dtypes("LayerNormKernelImpl", input, weight, bias)
    return _rows_of(input, shape, weight, bias, eps, True)[0]


@public("nn.functional.layer_norm", method=False)
def functional_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Normalizes over the last dimensions, whose extents are `normalized_shape`, to mean 0 and variance 1.

    >>> import flambeau as torch
    >>> torch.nn.functional.layer_norm(torch.tensor([[1.0, 3.0]]), (2,))
    tensor([[-1.0000,  1.0000]])
    """
    return layer_norm(input, normalized_shape, weight, bias, eps)


@public(method=False)
def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Layer norm with the means and the reciprocals of the standard deviations it used."""
    shape = _check_row_shape("layer_norm", input, normalized_shape, weight, bias)
    _check_dtypes("LayerNormKernelImpl", input, weight, bias)
    out, mean, scale = _rows_of(input, shape, weight, bias, eps, True)
    lead = input._array.shape[: input._array.ndim - len(shape)] + (1,) * len(shape)
    d = input.dtype if weight is None or weight.dtype is input.dtype else float32
    return out, *[ops.reshape(_as(ops.detach(t), d), lead) for t in (mean, scale)]


def _as(t: Tensor, d: dtype) -> Tensor:
    return t if t.dtype is d else ops.to_dtype(t, d)  # type: ignore[no-any-return]


@public("rms_norm", "nn.functional.rms_norm", method=False)
def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Divides by the root of the mean square over the last dimensions, whose extents are `normalized_shape`.

    >>> import flambeau as torch
    >>> torch.nn.functional.rms_norm(torch.tensor([[3.0, 4.0]]), (2,))
    tensor([[0.8485, 1.1314]])
    """
    shape = _check_row_shape("rms_norm", input, normalized_shape, weight)
    if input.dtype.category < FLOATING:
        raise not_implemented("rms_norm", input.dtype)
    if eps is None:
        eps = finfo(input.dtype.wide.to_real()).eps
    if input.dtype.category == COMPLEX or (weight is not None and weight.dtype is not input.dtype):
        dims = tuple(range(-len(shape), 0))
        out = input * ops.rsqrt(ops.mean(input * input, dims, True) + eps)
        return out if weight is None else out * weight
    return _rows_of(input, shape, weight, None, eps, False)[0]


# -- blocks: group norm, instance norm, batch norm -----------------------------------------------------------------


def _blocks(x: Any, groups: int) -> Any:
    """(N, C, L) as blocks: (N, groups, C / groups, L), or channel by channel (C, N, L) if groups is 0."""
    if groups:
        return x.reshape(x.shape[0], groups, x.shape[1] // groups, x.shape[2])
    blocks = x.transpose(1, 0, 2)
    return blocks.transpose(0, 2, 1) if x.shape[2] == 1 else blocks


def _block_parameter(given: Any, value: float, x: Any, blocks: Any, groups: int) -> Any:
    """A parameter of each channel, for each row of each block."""
    channels = _filled(given, x.shape[1], value, x)
    return np.broadcast_to(channels.reshape(groups, -1) if groups else channels[:, None], blocks.shape[:-1])


def _blocks_formula(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, groups: int) -> Tensor:
    """What the kernels compute, over tensors; x is (N, C, L)."""
    shape = x._array.shape
    if groups:
        x, dims = ops.reshape(x, (shape[0], groups, -1)), (2,)
    else:
        dims = (0, 2)
    x = x - ops.mean(x, dims, True)
    out = ops.reshape(x * ops.rsqrt(ops.mean(x * x, dims, True) + eps), shape)
    out = out if weight is None else out * ops.unsqueeze(weight, 1)
    return out if bias is None else out + ops.unsqueeze(bias, 1)


def _blocks_grad(gs: Any, outs: Any, x: Any, weight: Any, eps: float, groups: int, rounded: bool, needs: Any) -> Any:
    return norm_blocks_back(gs[0], x, weight, outs[1], outs[2], eps, groups, rounded, tuple(needs))


@primitive(tensors=3, name="norm_blocks", grad=_blocks_grad, backward_name="NativeBatchNormBackward0")
def norm_blocks_op(backend: Any, x: Any, weight: Any, bias: Any, eps: float, groups: int, rounded: bool) -> Any:
    """Blocks normalized; their means, the factors they were multiplied by, and their variances."""
    wide = _statistics(x, weight)
    out = np.empty(x.shape, x.dtype)
    source, target = _blocks(x, groups), _blocks(out, groups)
    w, b = (_block_parameter(t, v, x, source, groups) for t, v in ((weight, 1), (bias, 0)))
    stats = [np.empty(source.shape[:-2], d.numpy) for d in (wide, wide, _wide(x))]
    types = (_code(x), _code(w), _code(b), "f64", _code(x), wide.code, wide.code, _wide(x).code)
    _split_blocks(
        cpu.kernel(norm_blocks, types, rounded=rounded), [source, w, b, np.float64(eps)], [target, *stats], x.size
    )
    return out, *stats


def _split_blocks(call: Any, arrays: list[Any], outs: list[Any], size: int) -> None:
    """Splits over the threads along the longer of the loop dimensions."""
    axis = 1 if outs[0].ndim == 4 and outs[0].shape[1] > outs[0].shape[0] else 0
    if axis:
        arrays, outs = ([a.swapaxes(0, 1) if getattr(a, "ndim", 0) else a for a in part] for part in (arrays, outs))
    cpu.rows(call, [np.asarray(a) for a in arrays], outs, size * _WORK)


def _blocks_second(
    gs: Any, cotangent: Any, x: Any, weight: Any, eps: float, groups: int, wanted: Any, needs: Any
) -> Any:
    tensors = [x, weight] if weight is not None else [x]

    def formula(x: Tensor, weight: Tensor | None = None) -> Tensor:
        return _blocks_formula(x, weight, None, eps, groups)

    found = second(formula, tensors, cotangent, wanted[: len(tensors)], gs, needs[: 1 + len(tensors)])
    if len(gs) > 2 and gs[2] is not None and wanted[2] and needs[0]:
        more = ops.expand_as(ops.unsqueeze(gs[2], 1), cotangent)
        found[0] = more if found[0] is None else found[0] + more
    return [*found, *[None] * (5 - len(found))]


@primitive(tensors=5, name="norm_blocks_backward", grad=_blocks_second)
def norm_blocks_back(
    backend: Any, cotangent: Any, x: Any, weight: Any, mean: Any, scale: Any, eps: float, groups: int, rounded: bool,
    wanted: Any,
) -> Any:  # fmt: skip
    wide = _wide(x)
    dx = np.empty(x.shape, x.dtype)
    source, target, g = (_blocks(a, groups) for a in (x, dx, cotangent))
    w = _block_parameter(weight, 1, x, source, groups)
    by_weight, by_bias = (np.empty(source.shape[:-1], np.float64) for _ in range(2))
    types = (_code(cotangent), _code(x), _code(w), _code(mean), _code(scale), _code(x), "f64", "f64")
    _split_blocks(
        cpu.kernel(norm_blocks_backward, types), [g, source, w, mean, scale], [target, by_weight, by_bias], x.size
    )
    channels = x.shape[1]
    if rounded and groups:  # each instance gives its parameters a gradient of their dtype
        by_weight, by_bias = (
            part.astype(_statistics(x, weight).numpy).astype(np.float64) for part in (by_weight, by_bias)
        )
    dw, db = (
        (part.sum(0) if groups else part.sum(1)).reshape(channels).astype(wide.numpy) if want else None
        for part, want in ((by_weight, wanted[1]), (by_bias, wanted[2]))
    )
    return dx if wanted[0] else None, dw, db


def _three(input: Tensor) -> Tensor:
    """The input as (N, C, L)."""
    shape = input._array.shape
    flat = input if len(shape) == 3 else ops.reshape(input, (*shape[:2], math.prod(shape[2:])))
    return flat if flat._array.flags.c_contiguous else ops.contiguous(flat)


def _group_norm(
    input: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float, rounded: bool = False
) -> tuple[Any, ...]:
    flat = _three(input)
    if _elsewhere(input):
        return (
            ops.reshape(_composed(_blocks_formula, flat, weight, bias, eps, groups), input._array.shape),
            None,
            None,
            None,
        )
    out, mean, scale, variance = norm_blocks_op(flat, weight, bias, eps, groups, rounded)
    return ops.reshape(out, input._array.shape), mean, scale, variance


def _check_channels(name: str, count: int, *parameters: Tensor | None) -> None:
    for kind, t in zip(("weight", "bias", "running_mean", "running_var"), parameters):
        if t is not None and t._array.size != count:
            raise RuntimeError(f"{name}: {kind} should contain {count} elements not {t._array.size}")


@public("group_norm", method=False)
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """`nn.functional.group_norm`."""
    shape = input._array.shape
    if len(shape) < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {len(shape)}")
    if num_groups <= 0:
        raise RuntimeError("num_groups must be positive")
    if shape[1] % num_groups:
        raise RuntimeError(
            f"Expected number of channels in input to be divisible by num_groups, but got input of shape {list(shape)} "
            f"and num_groups={num_groups}"
        )
    _check_channels("group_norm", shape[1], weight, bias)
    _check_dtypes("GroupNormKernelImpl", input, weight, bias)
    return _group_norm(input, num_groups, weight, bias, eps)[0]  # type: ignore[no-any-return]


@public("nn.functional.group_norm", method=False)
def functional_group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalizes each group of channels of each sample."""
    if input._array.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input._array.ndim}")
    _more_than_one(
        [input._array.shape[0] * input._array.shape[1] // max(num_groups, 1), num_groups, *input._array.shape[2:]]
    )
    return group_norm(input, num_groups, weight, bias, eps)


@public(method=False)
def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Group norm with the means and the reciprocals of the standard deviations it used."""
    _check_channels("native_group_norm", C, weight, bias)
    _check_dtypes("GroupNormKernelImpl", input, weight, bias)
    out = _group_norm(ops.reshape(input, (N, C, HxW)), group, weight, bias, eps)[0]
    groups = ops.reshape(input, (N, group, C // max(group, 1) * HxW))  # both statistics can be differentiated
    wide = groups if input.dtype.itemsize > 2 else ops.to_dtype(groups, float32)
    variance, mean = ops.var_mean(wide, 2, correction=0)
    d = input.dtype if weight is None or weight.dtype is input.dtype else float32
    return ops.reshape(out, input._array.shape), _as(mean, d), _as(ops.rsqrt(variance + eps), d)


def _more_than_one(shape: Sequence[int]) -> None:
    if math.prod(shape) // max(shape[1], 1) == 1 and math.prod(shape):
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {tuple(shape)}")


_scale_shift = pointwise(
    "scale_shift", lambda m, x, a, b: x * a + b, floating_only,
    {"x": lambda m, g, a: g * m.conj(a), "a": lambda m, g, x: g * m.conj(x), "b": lambda m, g: g},
    public=False, numbers="none", backward_name="NativeBatchNormBackward0",
)  # fmt: skip


def _with_given(
    input: Tensor, mean: Tensor, variance: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    """Normalized by statistics that are known: a factor and a summand for each channel."""
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
    return _as(out, input.dtype)


def _update(running: Tensor | None, value: Any, momentum: float) -> None:
    """running = (1 - momentum) * running + momentum * value, in place."""
    if running is None:
        return
    check_writable(ops.detach(running))
    array = running._array
    array[...] = ((1 - momentum) * array.astype(np.float64) + momentum * value).astype(array.dtype)
    bump(running)


def _batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
) -> tuple[Any, Any, Any]:  # fmt: skip
    shape = input._array.shape
    if not input._array.size:
        return ops.clone(input), ops.zeros((0,), dtype=input.dtype), ops.zeros((0,), dtype=input.dtype)
    if len(shape) < 2:
        raise RuntimeError(f"batch_norm: expected at least 2 dimensions, got {len(shape)}")
    if not training and (running_mean is None or running_var is None):
        raise RuntimeError("running_mean and running_var must be defined in evaluation mode")
    _check_channels("batch_norm", shape[1], weight, bias, running_mean, running_var)
    _check_dtypes("batch_norm", input, weight, bias)
    if not training:
        return _with_given(input, running_mean, running_var, weight, bias, eps), None, None  # type: ignore[arg-type]
    flat = _three(input)
    if _elsewhere(input):
        return _elsewhere_batch_norm(flat, weight, bias, running_mean, running_var, momentum, eps, shape)
    out, mean, scale, variance = norm_blocks_op(flat, weight, bias, eps, 0, True)
    if running_mean is not None or running_var is not None:
        count = flat._array.size // shape[1]
        _update(running_mean, mean._array, momentum)
        _update(running_var, variance._array * np.float64(count / max(count - 1, 1)), momentum)
    return ops.reshape(out, shape), mean, scale


def _elsewhere_batch_norm(
    flat: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any, momentum: float, eps: float, shape: Any
) -> tuple[Any, Any, Any]:
    mean = ops.detach(ops.mean(flat, (0, 2)))
    variance = ops.detach(ops.var(flat, (0, 2), correction=0))
    count = flat._array.size // max(shape[1], 1)
    for running, value in ((running_mean, mean), (running_var, variance * (count / max(count - 1, 1)))):
        if running is not None:
            ops.copy_(ops.detach(running), (1 - momentum) * ops.detach(running) + momentum * value)
    out = _composed(_blocks_formula, flat, weight, bias, eps, 0)
    return ops.reshape(out, shape), mean, ops.rsqrt(variance + eps)


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
    if training and input._array.ndim > 1:
        _more_than_one(input._array.shape)
    return _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]  # type: ignore[no-any-return]


@public(method=False, out=True)
def native_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Batch norm with the means and the reciprocals of the standard deviations it used (empty in evaluation)."""
    out, mean, scale = _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)
    d = input.dtype if weight is None or weight.dtype is input.dtype else float32
    if mean is None:
        nothing = ops.zeros((0,), dtype=d if weight is not None or input.dtype.itemsize > 2 else float32)
        return out, nothing, ops.clone(nothing)
    return out, _as(ops.detach(mean), d), _as(ops.detach(scale), d)


@public("instance_norm", method=False)
def instance_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """`nn.functional.instance_norm` with its arguments in another order."""
    shape = input._array.shape
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError("instance_norm: without use_input_stats it needs running_mean and running_var")
    _check_channels("instance_norm", shape[1], weight, bias, running_mean, running_var)
    _check_dtypes("batch_norm", input, weight, bias)
    if not use_input_stats:
        return _with_given(input, running_mean, running_var, weight, bias, eps)  # type: ignore[arg-type]
    out, mean, _, variance = _group_norm(input, shape[1], weight, bias, eps, True)
    if running_mean is not None or running_var is not None:
        count = math.prod(shape[2:])
        _update(running_mean, mean._array.mean(0), momentum)
        _update(running_var, variance._array.mean(0) * np.float64(count / max(count - 1, 1)), momentum)
    return out  # type: ignore[no-any-return]


@public("nn.functional.instance_norm", method=False)
def functional_instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
    weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Normalizes each channel of each sample."""
    shape = input._array.shape
    if use_input_stats and math.prod(shape[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {tuple(shape)}")
    return instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True)


@public("nn.functional.local_response_norm", method=False)
def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divides by a power of the mean square over neighbouring channels."""
    ndim = input._array.ndim
    if ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {ndim} dimensions)")
    if not input._array.size:
        return input
    square = input * input
    around = [0, 0] * (ndim - 2) + [size // 2, (size - 1) // 2]
    windows = ops.unfold(functions["nn.functional.pad"](square, around), 1, size, 1)
    mean = functions["div"](
        ops.sum(windows, -1), size, rounding_mode=None if input.dtype.category >= FLOATING else "trunc"
    )
    return input / ops.pow(mean * alpha + k, beta)  # type: ignore[no-any-return]
