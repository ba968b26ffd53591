"""Activations with weights, chance or two halves: prelu, rrelu, glu."""

from __future__ import annotations

import math
from typing import Any

from ..._backend.cpu import cpu
from ..._core.allocation import empty
from ..._core.dtypes import COMPLEX, float64, from_numpy_dtype
from ..._core.layouts import contiguous_format
from ..._core.sizes import wrap_dim
from ..._core.state import BATCHED, DISPATCH, GRAD, META, local, modes
from ..._tensor import Tensor, wrap
from ..records.batching import along, is_differentiated
from ..records.declare import pointwise
from ..records.inplace import assign, pointwise_in_place
from ..records.primitive import primitive
from ..records.rules import not_implemented, real_floating_only
from ..records.shape_rules import dense
from ..records.writable import check_writable
from ..registry import labelled, ops, public, relabel
from .activation import leaky_relu_op

prelu_op = pointwise(
    "prelu_kernel", lambda m, x, weight: m.where(x > 0.0, x, x * weight), real_floating_only, public=False,
    grad={
        "x": lambda m, g, x, weight: m.where(x > 0.0, g, g * weight),
        "weight": lambda m, g, x: m.where(x > 0.0, m.zeros_like(g), g * x),
    },
)  # fmt: skip


@public("prelu", "nn.functional.prelu")
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x above zero, weight * x below; one weight, or one for each channel (dimension 1).

    >>> import flambeau as torch
    >>> torch.prelu(torch.tensor([[-1.0, -1.0]]), torch.tensor([0.1, 0.2]))
    tensor([[-0.1000, -0.2000]])
    """
    if weight.dtype is not input.dtype:
        raise RuntimeError(f"prelu: Type promoting not supported. Got {input.dtype} and {weight.dtype}")
    count, ndim = weight._array.size, input._array.ndim
    if weight._array.ndim > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight._array.ndim}"
        )
    if count != 1:
        if not ndim:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = input._array.shape[1] if ndim > 1 else 1
        if channels != count:
            raise RuntimeError(f"prelu: Mismatch of parameter numbers and input channel size, {count} and {channels}")
    if weight._array.ndim:
        weight = ops.reshape(weight, (1, count) + (1,) * (ndim - 2) if ndim > 1 else (count,) if ndim else ())
    return prelu_op.call(input, weight)


def _rrelu_noise(input: Tensor, lower: float, upper: float, generator: Any = None) -> Tensor:
    """Random slopes where the input is not positive, 1 elsewhere; only those slopes are drawn, in double precision."""
    noise = ops.ones_like(input, memory_format=contiguous_format)
    if input._k & META:
        if input._k & BATCHED and (input._k | modes.on) & DISPATCH:
            raise RuntimeError(
                "vmap: rrelu draws a slope for each element below zero, and fake tensors do not say which these are: record it with "
                "tracing_mode='real'"
            )
        return noise
    below = ops.le(ops.detach(input), 0)
    slopes = ops.empty((int(ops.sum(below)),), dtype=float64, device=input.device)
    ops.uniform_(slopes, lower, upper, generator=generator)
    return ops.masked_scatter(noise, below, ops.to_dtype(slopes, input.dtype))


def _rrelu(input: Tensor, lower: float, upper: float, training: bool) -> Tensor:
    for name, bound in (("lower", lower), ("upper", upper)):
        if not math.isfinite(bound):
            raise RuntimeError(f"rrelu: {name} bound must be finite, got {bound}")
    if lower > upper:
        raise RuntimeError(f"Lower bound should be less than or equal to the upper bound, got {lower} and {upper}")
    input = ops.contiguous(input)
    if training:
        real_floating_only("rrelu_with_noise", input.dtype)
        if not (input._k | modes.on) & DISPATCH:
            return ops.mul(input, _rrelu_noise(input, lower, upper))
        noise = ops.empty_like(input, memory_format=contiguous_format)
        made = ops.rrelu_with_noise(ops.detach(input), noise, lower, upper, True)
        return ops.mul(input, noise) if is_differentiated(input) else made
    return leaky_relu_op.call(input, (lower + upper) / 2)


@public("nn.functional._rrelu_with_noise", method=False)
def rrelu_with_noise(
    input: Tensor, noise: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, generator: Any = None
) -> Tensor:  # fmt: skip
    """rrelu that writes the slopes it has drawn into a tensor."""
    if not training:
        return leaky_relu_op.call(input, (lower + upper) / 2)
    ops.copy_(noise, _rrelu_noise(input, lower, upper, generator))
    return ops.mul(input, noise)


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """rrelu in place."""
    if training:
        check_writable(input)
        return assign(input, relabel(_rrelu(ops.clone(input), lower, upper, True), "RreluWithNoiseBackward1"), "rrelu_")
    made = pointwise_in_place(leaky_relu_op, input, (lower + upper) / 2)
    return relabel(made, "RreluWithNoiseBackward1", leaky_relu_op)


@public("rrelu", "nn.functional.rrelu", method=False)
@labelled("RreluWithNoiseBackward0")
def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """leaky_relu whose slope is drawn anew for each element while training, and fixed otherwise."""
    return rrelu_(input, lower, upper, training) if inplace else _rrelu(input, lower, upper, training)


public("rrelu_", "nn.functional.rrelu_", method=False)(rrelu_)

halves_op = pointwise(
    "glu_halves", lambda m, a, b: a * m.sigmoid(b), real_floating_only, public=False, backward_name="GluBackward0",
    grad={
        "a": lambda m, g, b: g * m.sigmoid(b),
        "b": lambda m, g, a, b: g * a * (1.0 - m.sigmoid(b)) * m.sigmoid(b),
    },
)  # fmt: skip
slope_op = pointwise(
    "glu_slope", lambda m, x, a, b: x * a * (1.0 - m.sigmoid(b)) * m.sigmoid(b), real_floating_only, public=False,
    grad={
        "x": lambda m, g, a, b: g * a * (1.0 - m.sigmoid(b)) * m.sigmoid(b),
        "a": lambda m, g, x, b: g * x * (1.0 - m.sigmoid(b)) * m.sigmoid(b),
        "b": lambda m, g, x, a, b: g * x * a * (1.0 - m.sigmoid(b)) * m.sigmoid(b) * (1.0 - 2.0 * m.sigmoid(b)),
    },
)  # fmt: skip


def _glu_gradient(g: Tensor, x: Tensor, dim: int) -> Tensor:
    n = x._array.shape[dim] // 2
    if not (g._k | modes.on or x._k > GRAD or (x._k and local.grad)) and g.dtype is x.dtype:
        parts = [(*[slice(None)] * dim, part) for part in (slice(n), slice(n, None))]
        out, (a, b) = empty(x._array.shape, x.dtype.numpy), [x._array[part] for part in parts]
        for op, part, given in ((halves_op, parts[0], [g._array, b]), (slope_op, parts[1], [g._array, a, b])):
            cpu.into(op.variant(cpu, x.dtype)[0], given, out[part])  # where `cat` would bring it
        return wrap(out, x.dtype)
    a, b = ops.narrow(x, dim, 0, n), ops.narrow(x, dim, n, n)
    return ops.cat([halves_op.call(g, b), slope_op.call(g, a, b)], dim)


def _glu_meta(x: Any, dim: int) -> Any:
    return dense(x[(*(slice(None),) * dim, slice(x.shape[dim] // 2))])


@primitive(name="glu", grad={"x": _glu_gradient}, meta=_glu_meta, batch=along)
def glu_op(backend: Any, x: Any, dim: int) -> Any:
    n, before, d = x.shape[dim] // 2, (slice(None),) * dim, from_numpy_dtype(x.dtype)
    a, b = [wrap(x[(*before, part)], d, backend.bits) for part in (slice(n), slice(n, None))]
    return halves_op.call(a, b)._array


@public("nn.functional.glu", method=False, out=True, planned=True)
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along `dim` times the sigmoid of the second.

    >>> import flambeau as torch
    >>> torch.nn.functional.glu(torch.tensor([3.0, 0.0]))
    tensor([1.5000])
    """
    if not input._array.ndim:
        raise RuntimeError("glu does not support scalars: there is nothing to halve")
    dim = wrap_dim(dim, input._array.ndim)
    n = input._array.shape[dim]
    if n % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {n}")
    if input.dtype.category == COMPLEX:
        raise not_implemented("glu_cpu", input.dtype)
    real_floating_only("glu", input.dtype)
    return glu_op.call(input, dim)


SCHEMAS = """
prelu(Tensor self, Tensor weight) -> Tensor  # autocast=lower
rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False, Generator? generator=None) -> Tensor  # parts
rrelu_with_noise(Tensor self, Tensor(b!) noise, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False, Generator? generator=None) -> Tensor
rrelu_  # parts
glu(Tensor self, int dim=-1) -> Tensor
prelu_kernel  # record=_prelu_kernel
"""
