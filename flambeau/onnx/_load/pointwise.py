"""ONNX operators on elements: arithmetic, comparisons, activations, casts."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from ..._core import dtypes
from ..._core.info import finfo
from ..._ops.registry import ops
from ..._tensor import Tensor
from ...nn import functional as F
from ..errors import OnnxModelError
from .operators import Node, on_sizes, operator
from .tensors import element_type

__all__: list[str] = []


# -- one operand -------------------------------------------------------------------------------------------------------

operator("Abs")(lambda node, x: ops.abs(x))
operator("Acos")(lambda node, x: ops.acos(x))
operator("Acosh")(lambda node, x: ops.acosh(x))
operator("Asin")(lambda node, x: ops.asin(x))
operator("Asinh")(lambda node, x: ops.asinh(x))
operator("Atan")(lambda node, x: ops.atan(x))
operator("Atanh")(lambda node, x: ops.atanh(x))
operator("BitwiseNot")(lambda node, x: ops.bitwise_not(x))
operator("Ceil")(lambda node, x: ops.ceil(x))
operator("Celu")(lambda node, x: F.celu(x, node.float("alpha", 1.0)))
operator("Cos")(lambda node, x: ops.cos(x))
operator("Cosh")(lambda node, x: ops.cosh(x))
operator("Elu")(lambda node, x: F.elu(x, node.float("alpha", 1.0)))
operator("Erf")(lambda node, x: ops.erf(x))
operator("Exp")(lambda node, x: ops.exp(x))
operator("Floor")(lambda node, x: ops.floor(x))
operator("Gelu")(lambda node, x: F.gelu(x, approximate=node.text("approximate", "none")))
operator("HardSwish")(lambda node, x: F.hardswish(x))
operator("Identity")(lambda node, x: x)
operator("IsNaN")(lambda node, x: ops.isnan(x))
operator("LeakyRelu")(lambda node, x: F.leaky_relu(x, node.float("alpha", 0.01)))
operator("Log")(lambda node, x: ops.log(x))
operator("Mish")(lambda node, x: F.mish(x))
operator("Neg")(lambda node, x: ops.neg(x))
operator("Not")(lambda node, x: ops.logical_not(x))
operator("Reciprocal")(lambda node, x: ops.reciprocal(x))
operator("Relu")(lambda node, x: ops.relu(x))
operator("Round")(lambda node, x: ops.round(x))
operator("Sigmoid")(lambda node, x: ops.sigmoid(x))
operator("Sign")(lambda node, x: ops.sign(x))
operator("Sin")(lambda node, x: ops.sin(x))
operator("Sinh")(lambda node, x: ops.sinh(x))
operator("Softplus")(lambda node, x: F.softplus(x))
operator("Softsign")(lambda node, x: x / (1 + ops.abs(x)))
operator("Sqrt")(lambda node, x: ops.sqrt(x))
operator("Swish")(lambda node, x: x * ops.sigmoid(x * node.float("alpha", 1.0)))
operator("Tan")(lambda node, x: ops.tan(x))
operator("Tanh")(lambda node, x: ops.tanh(x))


@operator("HardSigmoid")
def hard_sigmoid(node: Node, x: Tensor) -> Any:
    return ops.clamp(x * node.float("alpha", 0.2) + node.float("beta", 0.5), 0, 1)


@operator("IsInf")
def is_inf(node: Node, x: Tensor) -> Any:
    found = ops.isinf(x)
    found = found if node.flag("detect_negative", True) else found & (x > 0)
    return found if node.flag("detect_positive", True) else found & (x < 0)


@operator("Selu")
def selu(node: Node, x: Tensor) -> Any:
    alpha, gamma = node.float("alpha", 1.67326319217681884765625), node.float("gamma", 1.05070102214813232421875)
    return gamma * ops.where(x > 0, x, alpha * ops.expm1(ops.clamp(x, max=0)))


@operator("ThresholdedRelu")
def thresholded_relu(node: Node, x: Tensor) -> Any:
    return ops.where(x > node.float("alpha", 1.0), x, ops.zeros_like(x))


@operator("Shrink")
def shrink(node: Node, x: Tensor) -> Any:
    bias, bound = node.float("bias", 0.0), node.float("lambd", 0.5)
    return ops.where(x < -bound, x + bias, ops.where(x > bound, x - bias, ops.zeros_like(x)))


@operator("PRelu")
def prelu(node: Node, x: Tensor, slope: Tensor) -> Any:
    return ops.where(x < 0, x * slope, x)


@operator("Clip")
def clip(node: Node, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Any:
    if node.opset < 11:
        return ops.clamp(x, node.float("min", -float("inf")), node.float("max", float("inf")))
    x = x if low is None else ops.maximum(x, low)
    return x if high is None else ops.minimum(x, high)


@operator("Dropout", lists=(1, 2))
def dropout(node: Node, x: Tensor, ratio: Any = None, training: Any = None) -> Any:
    """Inactive unless the model says that it trains."""
    if not training or not training[0] or (ratio is not None and ratio[0] == 0):
        return x, ops.ones_like(x, dtype=dtypes.bool_)
    chance = 0.5 if ratio is None else ratio[0]
    kept = ops.rand(x.shape, device=x.device) >= chance
    return ops.where(kept, x / (1 - chance), ops.zeros_like(x)), kept


@operator("Cast")
def cast(node: Node, x: Tensor) -> Any:
    return _cast(x, element_type(node.int("to")), node.int("to"), node.flag("saturate", True))


@operator("CastLike")
def cast_like(node: Node, x: Tensor, like: Tensor) -> Any:
    return _cast(x, like.dtype, 0, node.flag("saturate", True))


def _cast(x: Tensor, kind: Any, number: int, saturate: bool) -> Any:
    if number in (21, 22):
        raise OnnxModelError("casts to types of four bits are not supported")
    if kind in dtypes.FLOAT8 and x.dtype not in dtypes.FLOAT8:  # what is too large becomes the largest number
        return (ops.clamp(x, -finfo(kind).max, finfo(kind).max) if saturate else x).to(kind)
    return x.to(kind)


# -- two and more operands ---------------------------------------------------------------------------------------------

operator("Sub")(lambda node, x, y: ops.sub(x, y))
operator("Equal")(lambda node, x, y: ops.eq(x, y))
operator("Greater")(lambda node, x, y: ops.gt(x, y))
operator("GreaterOrEqual")(lambda node, x, y: ops.ge(x, y))
operator("Less")(lambda node, x, y: ops.lt(x, y))
operator("LessOrEqual")(lambda node, x, y: ops.le(x, y))
operator("And")(lambda node, x, y: ops.logical_and(x, y))
operator("Or")(lambda node, x, y: ops.logical_or(x, y))
operator("Xor")(lambda node, x, y: ops.logical_xor(x, y))
operator("BitwiseAnd")(lambda node, x, y: ops.bitwise_and(x, y))
operator("BitwiseOr")(lambda node, x, y: ops.bitwise_or(x, y))
operator("BitwiseXor")(lambda node, x, y: ops.bitwise_xor(x, y))
operator("Where")(lambda node, condition, x, y: ops.where(condition, x, y))
operator("Max")(lambda node, *xs: reduce(ops.maximum, xs))
operator("Min")(lambda node, *xs: reduce(ops.minimum, xs))
operator("Sum")(lambda node, *xs: reduce(ops.add, xs))
operator("Mean")(lambda node, *xs: reduce(ops.add, xs) / len(xs))
operator("Add")(lambda node, x, y: ops.add(x, y))
operator("Mul")(lambda node, x, y: ops.mul(x, y))


@operator("Div")
def div(node: Node, x: Tensor, y: Tensor) -> Any:
    whole = not (x.dtype.is_floating_point or x.dtype.is_complex)
    return x.div(y, rounding_mode="trunc") if whole else ops.div(x, y)


@operator("Mod")
def mod(node: Node, x: Tensor, y: Tensor) -> Any:
    return ops.fmod(x, y) if node.flag("fmod") else ops.remainder(x, y)


@operator("Pow")
def power(node: Node, x: Tensor, y: Tensor) -> Any:
    """The result has the type of the base; whole bases may have broken exponents."""
    if y.dtype.is_floating_point and not x.dtype.is_floating_point:
        return ops.pow(x.to(y.dtype), y).to(x.dtype)
    return ops.pow(x, y).to(x.dtype)


@operator("BitShift")
def bit_shift(node: Node, x: Tensor, y: Tensor) -> Any:
    left = node.text("direction") == "LEFT"
    return ops.bitwise_left_shift(x, y) if left else ops.bitwise_right_shift(x, y)


@operator("BitCast")
def bit_cast(node: Node, x: Tensor) -> Any:
    return x.view(element_type(node.int("to")))


# -- the same on sizes -------------------------------------------------------------------------------------------------

on_sizes("Identity")(lambda node, x: x)
on_sizes("Neg")(lambda node, x: -x)
on_sizes("Add")(lambda node, x, y: x + y)
on_sizes("Sub")(lambda node, x, y: x - y)
on_sizes("Mul")(lambda node, x, y: x * y)
on_sizes("Equal")(lambda node, x, y: np.asarray(x == y, bool))
on_sizes("Greater")(lambda node, x, y: np.asarray(x > y, bool))
on_sizes("GreaterOrEqual")(lambda node, x, y: np.asarray(x >= y, bool))
on_sizes("Less")(lambda node, x, y: np.asarray(x < y, bool))
on_sizes("LessOrEqual")(lambda node, x, y: np.asarray(x <= y, bool))
on_sizes("And")(lambda node, x, y: x & y)
on_sizes("Or")(lambda node, x, y: x | y)
on_sizes("Not")(lambda node, x: ~np.asarray(x, bool))
on_sizes("Where")(lambda node, condition, x, y: np.where(np.asarray(condition, bool), x, y))
on_sizes("Floor")(lambda node, x: np.floor(x) if x.dtype.kind == "f" else NotImplemented)
on_sizes("Ceil")(lambda node, x: np.ceil(x) if x.dtype.kind == "f" else NotImplemented)


@on_sizes("Max", "Min")
def extreme_sizes(node: Node, *xs: Any) -> Any:
    return reduce(np.maximum if node.kind == "Max" else np.minimum, xs)


@on_sizes("Div")
def div_sizes(node: Node, x: Any, y: Any) -> Any:
    if x.dtype.kind == "f":
        return x / y
    if not np.all(np.asarray(y != 0, bool)):
        return NotImplemented
    negative = np.asarray(x < 0, bool) != np.asarray(y < 0, bool)
    return -(abs(x) // abs(y)) if negative.any() else x // y


@on_sizes("Mod")
def mod_sizes(node: Node, x: Any, y: Any) -> Any:
    if node.flag("fmod") or x.dtype.kind == "f" or not np.all(np.asarray(y != 0, bool)):
        return NotImplemented
    return x % y


@on_sizes("Cast")
def cast_sizes(node: Node, x: Any) -> Any:
    kind = element_type(node.int("to"))
    if kind is dtypes.int64 and x.dtype.kind in "iubO":
        return x if x.dtype == object else x.astype(np.int64)
    if kind not in (dtypes.bool_, dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64):
        return NotImplemented
    return x.astype(kind.numpy)
