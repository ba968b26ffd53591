"""Normalization of rows (layer norm, rms norm) and what all normalizations share."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._backend.copies import row_major
from .._backend.cpu import PARALLEL, cpu
from .._core.allocation import empty
from .._core.dtypes import BY_NUMPY, COMPLEX, FLOATING, dtype, float32
from .._core.info import finfo
from .._core.state import CUDA, GRAD, local, modes
from .._kernel.lang import independent, kernel
from .._kernel.native.pool import settings
from .._kernel.norm import norm_rows, norm_rows_backward, norm_rows_backward_flat
from .._tensor import Tensor, wrap
from . import row_programs, tangents
from .basic import in_dtype
from .batched_layers import normalized, normalized_backward
from .batching import folded
from .fused import Fused, is_flat, parts_of, record, side_by_side
from .primitive import primitive
from .registry import functions, ops, public
from .replay import second
from .rules import not_implemented
from .saved import fetch
from .shape_rules import dtype_of, same
from .tangents import linear

_SHORT = 1 << 12  # elements of constants that are kept
WORK = 2  # a normalized element costs as much as so many moved ones


def wide_of(array: Any) -> dtype:
    return BY_NUMPY[array.dtype].wide


def statistics_dtype(x: Any, weight: Any) -> dtype:
    """The dtype of means and factors: that of the input, or of parameters that are wider."""
    return BY_NUMPY[x.dtype if weight is None else weight.dtype]


def filled(given: Any, count: int, value: float, like: Any) -> Any:
    """A parameter as a dense vector, of ones or zeros if there is none."""
    if given is None:
        return constant(count, value, wide_of(like).numpy)
    if given.ndim == 1 and given.strides[0] == given.itemsize:
        return given
    return np.ascontiguousarray(given.reshape(count))


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


def elsewhere(*tensors: Any) -> bool:
    """Whether a tensor is not in the memory of the CPU."""
    return any(isinstance(t, Tensor) and t._k & CUDA for t in tensors)


def check_channels(name: str, count: int, *parameters: Tensor | None) -> None:
    for kind, t in zip(("weight", "bias", "running_mean", "running_var"), parameters):
        if t is not None and t._array.size != count:
            raise RuntimeError(f"{name}: {kind} should contain {count} elements not {t._array.size}")


def more_than_one(shape: Sequence[int]) -> None:
    """While training a channel needs two values at least."""
    size: int = math.prod(shape)  # type: ignore[arg-type]
    if size and size // shape[1] == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {tuple(shape)}")


def composed(formula: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, *args: Any) -> Tensor:
    """A formula over tensors; 16-bit floats are computed with as float32 and rounded once."""
    d = x.dtype
    if d.itemsize > 2:
        return formula(x, weight, bias, *args)  # type: ignore[no-any-return]
    wide = [None if t is None else ops.to_dtype(t, float32) for t in (x, weight, bias)]
    return ops.to_dtype(formula(*wide, *args), d)  # type: ignore[no-any-return]


def check_dtypes(name: str, input: Tensor, *parameters: Tensor | None) -> None:
    if input.dtype.category != FLOATING:
        raise not_implemented(name, input.dtype)
    for t in parameters:
        if t is not None and t.dtype is not input.dtype and not (input.dtype.itemsize == 2 and t.dtype is float32):
            raise RuntimeError(
                f"mixed dtype (CPU): expect parameter to have scalar type of {input.dtype}, got {t.dtype}"
            )


# -- rows ----------------------------------------------------------------------------------------------------------


@functools.cache
def _forward_kernel(x: Any, weight: Any, bias: Any, kept: Any, center: bool, stream: bool, small: bool) -> Any:
    """The kernel for the dtypes of its operands."""
    get = cpu.small if small else cpu.kernel
    one, two, three, four = (BY_NUMPY[d].code for d in (x, weight, bias, kept))
    return get(norm_rows, (one, two, three, "f64", one, four, four), center=center, stream=stream)


def _normalized(x: Any, weight: Any, bias: Any, eps: float, center: bool) -> tuple[Any, Any, Any]:
    """The rows of a matrix normalized; their means and the factors they were multiplied by."""
    rows, count = x.shape
    d = x.dtype
    kept = wide_of(x).numpy if not center else d if weight is None else weight.dtype
    out = empty(x.shape, d)
    mean, scale = empty(rows, kept), empty(rows, kept)
    w, b = filled(weight, count, 1, x), filled(bias, count, 0, x)
    work = x.size * WORK
    call = _forward_kernel(d, w.dtype, b.dtype, kept, center, out.nbytes >= settings[1], work < PARALLEL)
    cpu.rows(call, [x, w, b, number(eps)], [out, mean, scale], work)
    return out, mean, scale


@functools.cache
def _backward_kernel(g: Any, x: Any, weight: Any, kept: Any, flat: bool, center: bool) -> Any:
    zero, one, two, three = (BY_NUMPY[d].code for d in (g, x, weight, kept))
    wide = BY_NUMPY[x].wide.code
    types = (zero, one, two, three, three, one, "f64", "f64", wide, wide)
    return cpu.kernel(norm_rows_backward_flat if flat else norm_rows_backward, types, center=center)


def _gradients(g: Any, x: Any, weight: Any, mean: Any, scale: Any, center: bool, shape: Any) -> tuple[Any, Any, Any]:
    """The gradients by x (in its own shape), weight and bias."""
    rows, count = x.shape
    made = empty(shape, x.dtype)
    out = made if made.shape == x.shape else made.reshape(x.shape)
    w = filled(weight, count, 1, x)
    flat = is_flat(g) and x.size > 1
    if flat:
        g = g[0, 0].reshape(())
    elif g.strides[1] != g.itemsize:
        g = np.ascontiguousarray(g)
    call = _backward_kernel(g.dtype, x.dtype, w.dtype, mean.dtype, flat, center)
    parts = parts_of(rows, x.size * WORK)
    room = wide_of(x).numpy
    jobs = []
    for low, high in parts:
        sums = [np.zeros(count), np.zeros(count), np.empty(count, room), np.empty(count, room)]
        given = [x[low:high], w, mean[low:high], scale[low:high], out[low:high]]
        jobs.append([g if flat else g[low:high], *given, *sums])
    side_by_side(call, jobs)
    by_weight, by_bias = jobs[0][6:8]
    for job in jobs[1:]:
        by_weight += job[6]
        by_bias += job[7]
    return made, by_weight.astype(w.dtype), by_bias.astype(w.dtype)


def _formula(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, center: bool) -> Tensor:
    """What the kernels compute, over tensors; x is a matrix."""
    if center:
        x = x - ops.mean(x, 1, True)
    out = x * ops.rsqrt(ops.mean(x * x, 1, True) + eps)
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


def _grad(given: Any, outs: Any, x: Any, weight: Any, eps: float, center: bool, needs: Any) -> Any:
    if given[0] is None:
        return [None] * 3
    return norm_rows_back(given[0], x, weight, outs[1], outs[2], eps, center, tuple(needs))


_by_row = lambda t: ops.unsqueeze(t, 1)


def _row_shapes(x: Any, weight: Any, bias: Any, eps: float, center: bool) -> list[Any]:
    kept = wide_of(x) if not center else dtype_of(x if weight is None else weight)
    return [same(x), (x.shape[:1], kept), (x.shape[:1], kept)]


@primitive(
    batch=normalized(_by_row),
    tangent=tangents.normalized(lambda t: t, lambda x, eps, center: norm_rows_op(x, None, None, eps, center)[0]),
    meta=_row_shapes,
    tensors=3,
    name="norm_rows",
    grad=_grad,
    backward_name="NativeLayerNormBackward0",
)
def norm_rows_op(backend: Any, x: Any, weight: Any, bias: Any, eps: float, center: bool) -> Any:
    if backend is not cpu:
        return row_programs.normalized(backend, x, weight, bias, eps, center)
    return _normalized(x, weight, bias, eps, center)


def _second(gs: Any, cotangent: Any, x: Any, weight: Any, eps: float, center: bool, wanted: Any, needs: Any) -> Any:
    tensors = [x, weight] if weight is not None else [x]

    def formula(x: Tensor, weight: Tensor | None = None) -> Tensor:
        return _formula(x, weight, None, eps, center)

    found = second(formula, tensors, cotangent, wanted[: len(tensors)], gs, needs[: 1 + len(tensors)])
    if len(gs) > 2 and gs[2] is not None and wanted[2] and needs[0]:  # the gradient by the bias is a plain sum
        more = ops.expand_as(gs[2], cotangent)
        found[0] = more if found[0] is None else found[0] + more
    return [*found, *[None] * (5 - len(found))]


def _gradient_shapes(cotangent: Any, x: Any, weight: Any, *rest: Any) -> list[Any]:
    d = wide_of(x) if weight is None else dtype_of(weight)
    made = same(x), (x.shape[1:], d), (x.shape[1:], d)
    return [m if want else None for m, want in zip(made, rest[-1])]


def _backward_formula(
    cotangent: Tensor, x: Tensor, weight: Tensor | None, mean: Any, scale: Any, eps: float, center: bool, wanted: Any
) -> tuple[Any, ...]:
    """What `norm_rows_back` computes, over tensors."""
    if center:
        x = x - ops.mean(x, 1, True)
    factor = ops.rsqrt(ops.mean(x * x, 1, True) + eps)
    values = x * factor
    g = cotangent if weight is None else cotangent * weight
    rest = values * ops.mean(g * values, 1, True)
    by_x = factor * (g - (ops.mean(g, 1, True) + rest if center else rest)) if wanted[0] else None
    return by_x, ops.sum(cotangent * values, 0) if wanted[1] else None, ops.sum(cotangent, 0) if wanted[2] else None


@primitive(
    batch=normalized_backward(_by_row, -2),
    tangent=tangents.Composed(_backward_formula),
    meta=_gradient_shapes,
    tensors=5,
    name="norm_rows_backward",
    grad=_second,
)
def norm_rows_back(
    backend: Any, cotangent: Any, x: Any, weight: Any, mean: Any, scale: Any, eps: float, center: bool, wanted: Any
) -> Any:
    """The gradients by x, weight and bias, as far as `wanted`."""
    if backend is not cpu:
        return row_programs.normalized_backward(backend, cotangent, x, weight, mean, scale, center, wanted)
    made = _gradients(cotangent, x, weight, mean, scale, center, x.shape)
    return tuple(a if want else None for a, want in zip(made, wanted))


def _gradient(node: Any, g: Tensor, create_graph: bool) -> Any:
    """The gradients of a fused node: as of the matrix of rows, in the shapes of the input and the parameters."""
    x, weight = fetch(node, 0), None if node.saved[1] is None else fetch(node, 1)
    mean, scale, eps, center, shape, bias_dtype = node.saved[2:]
    needs = [e is not None for e in node.edges]
    count = math.prod(shape)
    if create_graph or g._k & ~GRAD:
        w = None if weight is None else ops.reshape(weight, (count,))
        made = norm_rows_back(
            ops.reshape(g, (-1, count)), ops.reshape(x, (-1, count)), w, mean, scale, eps,
            center, tuple(needs),
        )  # fmt: skip
        shapes = (x._array.shape, shape, shape)
        return [None if t is None else ops.reshape(t, s) for t, s in zip(made, shapes)]
    rows = _matrix(x._array, count)
    weights = None if weight is None else weight._array
    made = _gradients(_matrix(g._array, count), rows, weights, mean._array, scale._array, center, x._array.shape)
    if needs[2] and made[2].dtype != bias_dtype.numpy:
        made = (*made[:2], made[2].astype(bias_dtype.numpy))
    shapes = (x._array.shape, shape, shape)
    return [
        wrap(a if a.shape == s else a.reshape(s), BY_NUMPY[a.dtype]) if need else None
        for a, s, need in zip(made, shapes, needs)
    ]


_FUSED = Fused("layer_norm", "NativeLayerNormBackward0", _gradient)
_FUSED_RMS = Fused("rms_norm", "MulBackward0", _gradient)


def _matrix(array: Any, count: int) -> Any:
    """An array as rows of `count` elements that lie one after the other."""
    if array.ndim > 2 and array.strides[-1] not in (0, array.itemsize):
        array = row_major(array)
    rows = array if array.ndim == 2 and array.shape[1] == count else array.reshape(-1, count)
    return rows if rows.strides[1] == rows.itemsize or is_flat(rows) else np.ascontiguousarray(rows)


def _rows_of(
    input: Tensor, shape: tuple[int, ...], weight: Tensor | None, bias: Tensor | None, eps: float, center: bool,
    statistics: bool = False,
) -> tuple[Tensor, Tensor | None, Tensor | None]:  # fmt: skip
    """The result in the shape of the input, means and factors of the rows; those may be missing unless asked for."""
    count = math.prod(shape)
    have = input._array.shape
    k = modes.on | input._k
    if weight is not None:
        k |= weight._k
    if bias is not None:
        k |= bias._k
    if k <= GRAD and input._array.size:
        rows = _matrix(input._array, count)
        if is_flat(rows):
            rows = np.ascontiguousarray(rows)
        made, mean, scale = _normalized(
            rows, None if weight is None else weight._array, None if bias is None else bias._array, eps, center
        )
        out = wrap(made if made.shape == have else made.reshape(have), input.dtype)
        if k and local.grad:
            kept = [wrap(a, BY_NUMPY[a.dtype]) for a in (mean, scale)]
            saved = [input, weight, *kept, eps, center, shape, None if bias is None else bias.dtype]
            record(_FUSED if center else _FUSED_RMS, out, (input, weight, bias), saved)
        if not statistics:
            return out, None, None
        d = BY_NUMPY[mean.dtype]
        return out, wrap(mean, d), wrap(scale, d)
    flat = input if len(have) == 2 and len(shape) == 1 else ops.reshape(input, (-1 if input._array.size else 0, count))
    w, b = (None if t is None else ops.reshape(t, (count,)) for t in (weight, bias))
    if flat._array.strides[-1] != flat._array.itemsize and flat._array.size and not flat._k & CUDA:
        flat = ops.contiguous(flat)
    result, means, scales = norm_rows_op(flat, w, b, eps, center)
    return result if result._array.shape == have else ops.reshape(result, have), means, scales


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


def _checked(input: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None) -> tuple[int, ...]:
    """The normalized shape, if all fits together."""
    if shape.__class__ is not tuple:
        shape = tuple(shape)
    have, d = input._array.shape, input.dtype
    usual = shape and have[len(have) - len(shape) :] == shape and d.category == FLOATING
    usual = usual and (weight is None or (weight._array.shape == shape and weight.dtype is d))
    if not (usual and (bias is None or (bias._array.shape == shape and bias.dtype is d))):
        shape = _check_row_shape("layer_norm", input, shape, weight, bias)
        check_dtypes("LayerNormKernelImpl", input, weight, bias)
    return shape  # type: ignore[return-value]


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
    out, mean, scale = _rows_of(input, shape, weight, bias, eps, True, True)
    lead = input._array.shape[: input._array.ndim - len(shape)] + (1,) * len(shape)
    d = input.dtype if weight is None or weight.dtype is input.dtype else float32
    return out, *[ops.reshape(in_dtype(ops.detach(t), d), lead) for t in (mean, scale)]


@public("rms_norm", "nn.functional.rms_norm", method=False, planned=True)
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
    call = cpu.kernel(window_sums, (code, "i64", "i64", code))
    source, made = (a.reshape(*x.shape[:2], -1) for a in (x, out))
    cpu.rows(call, [source, np.int64(before), np.int64(after)], [made], x.size)
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
    return input / ops.pow(mean * alpha + k, beta)  # type: ignore[no-any-return]


SCHEMAS = """
layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor  # autocast=cuda:single/whole
native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)
rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor  # autocast=whole
local_response_norm  # composite
norm_rows  # record=native_layer_norm
norm_rows_backward  # record=native_layer_norm_backward
"""
