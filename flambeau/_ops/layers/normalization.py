"""Normalization of rows (layer norm, rms norm) and what all normalizations share."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._backend.copies import row_major
from ..._backend.cpu import cpu
from ..._core.allocation import empty
from ..._core.dtypes import BY_NUMPY, COMPLEX, FLOATING, dtype, float32
from ..._core.info import finfo
from ..._core.layouts import is_flat
from ..._core.state import GRAD, modes
from ..._kernel.loops.lang import independent, kernel
from ..._tensor import Tensor
from ..basic import in_dtype
from ..folds import row_programs
from ..records import tangents
from ..records.batched_layers import normalized, normalized_backward
from ..records.batching import aligned, folded
from ..records.primitive import primitive
from ..records.rules import not_implemented
from ..records.shape_rules import dtype_of, same
from ..records.tangents import linear
from ..registry import functions, ops, public, relabel

_SHORT = 1 << 12  # elements of constants that are kept


def wide_of(array: Any) -> dtype:
    return BY_NUMPY[array.dtype].wide


def statistics_dtype(x: Any, weight: Any) -> dtype:
    """The dtype of means and factors: that of the input, or of parameters that are wider."""
    return BY_NUMPY[x.dtype if weight is None else weight.dtype]


def constant(count: int, value: float, d: Any) -> Any:
    """A vector of one number, which nobody writes to."""
    return _short_constant(count, value, d) if count <= _SHORT else np.full(count, value, d)


@functools.lru_cache(256)
def _short_constant(count: int, value: float, d: Any) -> Any:
    made = np.full(count, value, d)
    made.flags.writeable = False
    return made


@functools.lru_cache(64)
def number(value: float) -> Any:
    """A double-precision operand of a kernel."""
    return np.asarray(value, np.float64)


def check_channels(name: str, count: int, *parameters: Tensor | None) -> None:
    for kind, t in zip(("weight", "bias", "running_mean", "running_var"), parameters):
        if t is not None and t._array.size != count:
            raise RuntimeError(f"{name}: {kind} should contain {count} elements not {t._array.size}")


def more_than_one(shape: Sequence[int]) -> None:
    """While training a channel needs two values at least."""
    size: int = math.prod(shape)
    if size and size // shape[1] == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {tuple(shape)}")


def check_dtypes(name: str, input: Tensor, *parameters: Tensor | None) -> None:
    if input.dtype.category != FLOATING:
        raise not_implemented(name, input.dtype)
    for t in parameters:
        if t is not None and t.dtype is not input.dtype and not (input.dtype.itemsize == 2 and t.dtype is float32):
            raise RuntimeError(
                f"mixed dtype (CPU): expect parameter to have scalar type of {input.dtype}, got {t.dtype}"
            )


# -- rows ----------------------------------------------------------------------------------------------------------


def _grad(given: Any, others: Any, x: Any, weight: Any, eps: float, center: bool, rank: int, needs: Any) -> Any:
    if given[0] is None:
        return [None] * 3
    return norm_rows_back(given[0], x, weight, others[0], others[1], eps, center, rank, tuple(needs))


def _beside(t: Tensor, x: Tensor) -> Tensor:
    """A batch of parameters, in the shape in which it goes with a batch of inputs."""
    return aligned(t, x._array.ndim - 1)


def _statistics(x: Any, rank: int) -> tuple[int, ...]:
    """The shape of means and factors."""
    return (*x.shape[: x.ndim - rank], *[1] * rank)


def _row_shapes(x: Any, weight: Any, bias: Any, eps: float, center: bool, rank: int) -> list[Any]:
    kept = statistics_dtype(x, weight) if center else wide_of(x)
    shape = _statistics(x, rank)
    return [same(x), (shape, kept), (shape, kept)]


def _matrix(backend: Any, array: Any, rank: int) -> Any:
    """An array as rows, each of the elements of the last `rank` dimensions; on the CPU one after the other, or one for all."""
    lead = array.ndim - rank
    if backend is cpu and array.ndim > 2 and array.strides[-1] not in (0, array.itemsize):
        array = row_major(array)
    rows = array.reshape(math.prod(array.shape[:lead]), math.prod(array.shape[lead:]))
    dense = backend is not cpu or rows.strides[1] == rows.itemsize or is_flat(rows)
    return rows if dense else row_major(rows)


@primitive(
    batch=normalized(_beside),
    tangent=tangents.normalized(lambda t, x: t, lambda x, *rest: norm_rows_op(x, None, None, *rest)[0]),
    meta=_row_shapes,
    tensors=3,
    name="norm_rows",
    grad=_grad,
    backward_name="NativeLayerNormBackward0",
    light=True,
)
def norm_rows_op(backend: Any, x: Any, weight: Any, bias: Any, eps: float, center: bool, rank: int) -> Any:
    """The last `rank` dimensions normalized; means and factors."""
    rows = _matrix(backend, x, rank)
    w, b = (None if p is None else p.reshape(-1) for p in (weight, bias))
    kept = wide_of(x) if backend is not cpu or not center else statistics_dtype(x, weight)
    made = row_programs.normalized(backend, rows, w, b, eps, center, kept.numpy)
    return made[0].reshape(x.shape), *[a.reshape(_statistics(x, rank)) for a in made[1:]]


def gradients_of_norm(
    g: Tensor, x: Tensor, dims: tuple[int, ...], eps: float, center: bool = True
) -> tuple[Tensor, Tensor]:
    """Values normalized over some dimensions, and the gradient by `x` that those with the gradient `g` give."""
    if center:
        x = x - ops.mean(x, dims, True)
    factor = ops.rsqrt(ops.mean(x * x, dims, True) + eps)
    values = x * factor
    rest = values * ops.mean(g * values, dims, True)
    return values, factor * (g - (ops.mean(g, dims, True) + rest if center else rest))


def _gradient_shapes(cotangent: Any, x: Any, weight: Any, *rest: Any) -> list[Any]:
    d = wide_of(x) if weight is None else dtype_of(weight)
    shape = x.shape[x.ndim - rest[-2] :]
    made = same(x), (shape, d), (shape, d)
    return [m if want else None for m, want in zip(made, rest[-1])]


def _backward_formula(
    cotangent: Tensor, x: Tensor, weight: Tensor | None, mean: Any, scale: Any, eps: float, center: bool, rank: int,
    wanted: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """What `norm_rows_back` computes, over tensors."""
    g, lead = cotangent if weight is None else cotangent * weight, tuple(range(x._array.ndim - rank))
    values, by_x = gradients_of_norm(g, x, tuple(range(-rank, 0)), eps, center)
    by_weight = ops.sum(cotangent * values, lead) if wanted[1] else None
    return by_x if wanted[0] else None, by_weight, ops.sum(cotangent, lead) if wanted[2] else None


@primitive(
    batch=normalized_backward(_beside, lambda x, rest: tuple(range(1, x._array.ndim - rest[-1]))),
    formula=_backward_formula,
    meta=_gradient_shapes,
    tensors=5,
    name="norm_rows_backward",
)
def norm_rows_back(
    backend: Any, cotangent: Any, x: Any, weight: Any, mean: Any, scale: Any, eps: float, center: bool, rank: int,
    wanted: Any,
) -> Any:  # fmt: skip
    """The gradients by x, weight and bias, as far as `wanted`."""
    g, rows = (_matrix(backend, a, rank) for a in (cotangent, x))
    w = None if weight is None else weight.reshape(-1)
    statistics = mean.reshape(-1), scale.reshape(-1)
    made = row_programs.normalized_backward(backend, g, rows, w, *statistics, center, wanted)
    shapes = x.shape, *[x.shape[x.ndim - rank :]] * 2
    return tuple(a.reshape(s) if want else None for a, s, want in zip(made, shapes, wanted))


def _rows_of(
    input: Tensor, shape: tuple[int, ...], weight: Tensor | None, bias: Tensor | None, eps: float, center: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The result, means and factors of the rows."""
    rank = len(shape)
    if input._array.ndim > rank:
        return norm_rows_op(input, weight, bias, eps, center, rank)
    made = norm_rows_op(ops.unsqueeze(input, 0), weight, bias, eps, center, rank)  # there may be a batch before it
    return tuple([relabel(ops.squeeze(t, 0), "NativeLayerNormBackward0") for t in made])  # type: ignore[return-value]


def _check_row_shape(input: Tensor, shape: Sequence[int], *parameters: Tensor | None) -> tuple[int, ...]:
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


def _checked(input: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None) -> tuple[int, ...]:
    """The normalized shape, if all fits together."""
    if shape.__class__ is not tuple:
        shape = tuple(shape)
    have, d = input._array.shape, input.dtype
    usual = shape and have[len(have) - len(shape) :] == shape and d.category == FLOATING
    usual = usual and (weight is None or (weight._array.shape == shape and weight.dtype is d))
    if not (usual and (bias is None or (bias._array.shape == shape and bias.dtype is d))):
        shape = _check_row_shape(input, shape, weight, bias)
        check_dtypes("LayerNormKernelImpl", input, weight, bias)
    return shape


@public("layer_norm", method=False, planned=True)
def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5, cudnn_enable: bool = True,
) -> Tensor:  # fmt: skip
    """`nn.functional.layer_norm`."""
    return _rows_of(input, _checked(input, normalized_shape, weight, bias), weight, bias, eps, True)[0]


@public("nn.functional.layer_norm", method=False, planned=True)
def functional_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Normalizes over the last dimensions, whose extents are `normalized_shape`, to mean 0 and variance 1.

    >>> import flambeau as torch
    >>> torch.nn.functional.layer_norm(torch.tensor([[1.0, 3.0]]), (2,))
    tensor([[-1.0000,  1.0000]])
    """
    return _rows_of(input, _checked(input, normalized_shape, weight, bias), weight, bias, eps, True)[0]


@public(method=False)
def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Layer norm with the means and the reciprocals of the standard deviations it used."""
    shape = _checked(input, normalized_shape, weight, bias)
    out, mean, scale = _rows_of(input, shape, weight, bias, eps, True)
    d = input.dtype if weight is None or weight.dtype is input.dtype else float32
    return out, in_dtype(ops.detach(mean), d), in_dtype(ops.detach(scale), d)


@public("rms_norm", "nn.functional.rms_norm", method=False, planned=True)
def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Divides by the root of the mean square over the last dimensions, whose extents are `normalized_shape`.

    >>> import flambeau as torch
    >>> torch.nn.functional.rms_norm(torch.tensor([[3.0, 4.0]]), (2,))
    tensor([[0.8485, 1.1314]])
    """
    shape = _check_row_shape(input, normalized_shape, weight)
    if input.dtype.category < FLOATING:
        raise not_implemented("rms_norm", input.dtype)
    if eps is None:
        eps = finfo(input.dtype.wide.to_real()).eps
    if input.dtype.category == COMPLEX or (weight is not None and weight.dtype is not input.dtype):
        dims = tuple(range(-len(shape), 0))
        out = input * ops.rsqrt(ops.mean(input * input, dims, True) + eps)
        return out if weight is None else out * weight
    return relabel(_rows_of(input, shape, weight, None, eps, False)[0], "MulBackward0")


@kernel("(c,n),(),()->(c,n)")
def window_sums(m: Any, x: Any, before: Any, after: Any, out: Any) -> None:
    """The sums over the rows from so many before each to so many after it."""
    for c in range(x.shape[0]):
        low = m.maximum(c - before[()], 0)
        high = m.minimum(c + after[()] + 1, x.shape[0])
        for i in independent(x.n):
            out[c, i] = x[low, i]
        for k in range(low + 1, high):
            for i in independent(x.n):
                out[c, i] = out[c, i] + x[k, i]


@primitive(
    batch=folded(),
    meta=same,
    name="channel_windows",
    grad={"x": lambda g, before, after: channel_windows(g, after, before)},
    tangent=linear("x"),
)
def channel_windows(backend: Any, x: Any, before: int, after: int) -> Any:
    """The sums over neighbouring channels: so many before each, itself, and so many after it."""
    out = empty(x.shape, x.dtype)
    code = BY_NUMPY[x.dtype].code
    call = cpu.sized(x.size, window_sums, (code, "i64", "i64", code))
    source, made = (a.reshape(*x.shape[:2], -1) for a in (x, out))
    call(source, np.int64(before), np.int64(after), made)
    return out


@public("nn.functional.local_response_norm", method=False)
def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divides by a power of the mean square over neighbouring channels."""
    ndim = input._array.ndim
    if ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {ndim} dimensions)")
    if not input._array.size:
        return input
    if size < 1:
        raise RuntimeError(f"local_response_norm: kernel size should be greater than zero, but got {size}")
    square = input * input
    plain = not (input._k | modes.on) & ~GRAD
    if plain and input.dtype.category == FLOATING and input.dtype.wide is input.dtype:
        total = channel_windows(square, size // 2, (size - 1) // 2)
    else:
        around = [0, 0] * (ndim - 2) + [size // 2, (size - 1) // 2]
        total = ops.sum(ops.unfold(functions["nn.functional.pad"](square, around), 1, size, 1), -1)
    mean = functions["div"](total, size, rounding_mode=None if input.dtype.category >= FLOATING else "trunc")
    return input / ops.pow(mean * alpha + k, beta)


SCHEMAS = """
layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor  # autocast=cuda:single/whole
native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)
rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor  # autocast=whole
local_response_norm  # composite
norm_rows  # record=native_layer_norm
norm_rows_backward  # record=native_layer_norm_backward
"""
