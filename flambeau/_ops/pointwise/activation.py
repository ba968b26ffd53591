"""Activation functions of neural networks, under `nn.functional`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..._core.dtypes import BOOL, FLOATING, int64
from ..._core.info import finfo
from ..._core.state import QUANTIZED, modes
from ..._tensor import Tensor
from .. import registry
from ..records.casting import checked_number
from ..records.declare import pointwise
from ..records.inplace import pointwise_in_place
from ..records.pointwise_op import Pointwise
from ..records.rules import Refusing, Rule, real_floating_only, type_name
from ..registry import functions, methods, ops, relabel

_no_bool = Refusing("b", "Boolean inputs are not supported", "if")


def _declare(name: str, body: Any, rule: Rule, gradient: Any, **options: Any) -> Pointwise:
    return pointwise(name, body, rule, {"x": gradient}, public=False, **options)


def _functional(*paths: str, inplace: Any = None) -> Callable[[Any], Any]:
    """Makes a function public under `nn.functional` and further paths as it is: its records see to overrides."""

    def decorate(function: Any) -> Any:
        for path in (f"nn.functional.{function.__name__}", *paths):
            functions[path] = function
        if inplace is not None:
            inplace.__name__ = inplace.__qualname__ = function.__name__ + "_"
            for path in (f"nn.functional.{function.__name__}", *paths):
                functions[path + "_"] = inplace
        return function

    return decorate


def _watched(function: Any, args: tuple[Any, ...], **named: Any) -> Any:
    """Classes and modes see the function that was called, not the records that it is made of."""
    if "out" in named and named["out"] is None:
        del named["out"]
    return registry.watched(function, args, named)


def _unit(name: str, op: Pointwise, doc: str, *paths: str) -> None:
    """Makes public what a record of one operand computes: `nn.functional.name(input, inplace=False)`, and `name_`."""

    def in_place(input: Tensor) -> Tensor:
        return pointwise_in_place(op, input)

    def unit(input: Tensor, inplace: bool = False) -> Tensor:
        if modes.overrides and (taken := _watched(unit, (input,), inplace=inplace)) is not NotImplemented:
            return taken
        return pointwise_in_place(op, input) if inplace else op.call(input)

    unit.__name__ = unit.__qualname__ = name
    unit.__doc__ = doc
    _functional(*paths, inplace=in_place)(unit)


# -- rectifiers --------------------------------------------------------------------------------------------------

relu_op = pointwise(
    "relu", lambda m, x: m.maximum(x, 0), _no_bool, {"x": lambda m, g, out: m.where(out <= 0, m.zeros_like(g), g)},
    out=False, second_name="ThresholdBackwardBackward0",
)  # fmt: skip
hardtanh_op = _declare(
    "hardtanh", lambda m, x, low, high: m.minimum(m.maximum(x, low), high), _no_bool,
    lambda m, g, x, low, high: m.where((x > low) & (x < high), g, m.zeros_like(g)), params=("low", "high"),
    checked="narrow",
)  # fmt: skip
leaky_relu_op = _declare(
    "leaky_relu", lambda m, x, slope: m.where(x > 0.0, x, x * slope), real_floating_only,
    lambda m, g, x, slope: m.where(x > 0.0, g, g * slope), params=("slope",), checked=True,
    in_place_name="LeakyReluBackward1",
)  # fmt: skip
threshold_op = _declare(
    "threshold", lambda m, x, limit, value: m.where(x <= limit, value, x), Rule("if"),
    lambda m, g, x, limit: m.where(x <= limit, m.zeros_like(g), g), params=("limit", "value"),
    checked=True, in_place_name="ThresholdBackward1", second_name="ThresholdBackwardBackward0",
)  # fmt: skip


@_functional(inplace=lambda input: ops.relu_(input))
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0).

    >>> import flambeau as torch
    >>> torch.nn.functional.relu(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    if modes.overrides and (taken := _watched(relu, (input,), inplace=inplace)) is not NotImplemented:
        return taken
    return ops.relu_(input) if inplace else relu_op.call(input)


def _hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    return pointwise_in_place(hardtanh_op, input, *_limits(input, min_val, max_val))


def _limits(input: Tensor, low: Any, high: Any) -> tuple[Any, Any]:
    """Bounds that the dtype of the input can hold."""
    if isinstance(input, Tensor) and input.dtype.category < FLOATING and not input._k & QUANTIZED:
        if input.dtype.category == BOOL:
            raise RuntimeError("Bool inputs not supported for hardtanh")
        if not input.dtype.is_signed and (low < 0 or high < 0):
            raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
        return checked_number(low, int64), checked_number(high, int64)
    return low, high


@_functional(inplace=_hardtanh_)
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x brought into [min_val, max_val]."""
    if (
        modes.overrides
        and (taken := _watched(hardtanh, (input,), min_val=min_val, max_val=max_val, inplace=inplace))
        is not NotImplemented
    ):
        return taken
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if inplace:
        return _hardtanh_(input, min_val, max_val)
    return hardtanh_op.call(input, *_limits(input, min_val, max_val))


@_functional(inplace=lambda input: _hardtanh_(input, 0.0, 6.0))
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6)."""
    if modes.overrides and (taken := _watched(relu6, (input,), inplace=inplace)) is not NotImplemented:
        return taken
    return _hardtanh_(input, 0.0, 6.0) if inplace else hardtanh_op.call(input, *_limits(input, 0.0, 6.0))


@_functional(inplace=lambda input, negative_slope=0.01: pointwise_in_place(leaky_relu_op, input, negative_slope))
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x above zero, negative_slope * x below."""
    if (
        modes.overrides
        and (taken := _watched(leaky_relu, (input,), negative_slope=negative_slope, inplace=inplace))
        is not NotImplemented
    ):
        return taken
    if inplace:
        return pointwise_in_place(leaky_relu_op, input, negative_slope)
    return leaky_relu_op.call(input, negative_slope)


@_functional(
    "threshold", inplace=lambda input, threshold, value: pointwise_in_place(threshold_op, input, threshold, value)
)
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where it is above the threshold, `value` elsewhere."""
    if (
        modes.overrides
        and (taken := _watched(functions["nn.functional.threshold"], (input, threshold, value), inplace=inplace))
        is not NotImplemented
    ):
        return taken
    if isinstance(input, Tensor) and input.dtype.itemsize == 2:  # unlike the threshold, it must fit into 16 bits
        checked_number(value, input.dtype)
    if inplace:
        return pointwise_in_place(threshold_op, input, threshold, value)
    return threshold_op.call(input, threshold, value)


# -- exponential units -------------------------------------------------------------------------------------------

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def _elu(m: Any, x: Any, alpha: Any, scale: Any, steepness: Any) -> Any:
    return m.where(x > 0.0, x * scale, m.expm1(x * steepness) * (alpha * scale))


def _elu_gradient(m: Any, g: Any, x: Any, alpha: Any, scale: Any, steepness: Any) -> Any:
    return m.where(x > 0.0, g * scale, g * (m.exp(x * steepness) * (alpha * scale * steepness)))


def _elu_gradient_of_result(m: Any, g: Any, out: Any, alpha: Any, scale: Any, steepness: Any) -> Any:
    return m.where(out > 0.0, g * scale, g * ((out + alpha * scale) * steepness))


elu_op = _declare("elu", _elu, real_floating_only, _elu_gradient, params=("alpha", "scale", "steepness"), checked=True)
celu_op = _declare(
    "celu", _elu, real_floating_only, _elu_gradient, params=("alpha", "scale", "steepness"), checked=True,
    backward_name="CeluBackward0",
)  # fmt: skip
# in place only the result is there to differentiate from
elu_in_place_op = _declare(
    "elu_in_place", _elu, real_floating_only, _elu_gradient_of_result, params=("alpha", "scale", "steepness"),
    checked=True, backward_name="EluBackward1",
)  # fmt: skip


def _elu_(input: Tensor, alpha: float = 1.0, scale: float = 1.0, steepness: float = 1.0) -> Tensor:
    return pointwise_in_place(elu_in_place_op, input, alpha, scale, steepness)


@_functional(inplace=lambda input, alpha=1.0: _elu_(input, alpha))
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x above zero, alpha * (exp(x) - 1) below."""
    if modes.overrides and (taken := _watched(elu, (input,), alpha=alpha, inplace=inplace)) is not NotImplemented:
        return taken
    return _elu_(input, alpha) if inplace else elu_op.call(input, alpha, 1.0, 1.0)


def _selu_(input: Tensor) -> Tensor:
    return _elu_(input, _SELU_ALPHA, _SELU_SCALE)


@_functional("selu", inplace=_selu_)
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """The scaled ELU of self-normalising networks."""
    if modes.overrides and (taken := _watched(selu, (input,), inplace=inplace)) is not NotImplemented:
        return taken
    return _selu_(input) if inplace else elu_op.call(input, _SELU_ALPHA, _SELU_SCALE, 1.0)


def _steepness(alpha: float) -> float:
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return 1.0 / alpha


def _celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    return relabel(_elu_(input, alpha, 1.0, _steepness(alpha)), "CeluBackward1", elu_in_place_op)


@_functional("celu", inplace=_celu_)
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x above zero, alpha * (exp(x / alpha) - 1) below."""
    if modes.overrides and (taken := _watched(celu, (input,), alpha=alpha, inplace=inplace)) is not NotImplemented:
        return taken
    if inplace:
        return _celu_(input, alpha)
    return celu_op.call(input, alpha, 1.0, _steepness(alpha))


# -- smooth units ------------------------------------------------------------------------------------------------

_ROOT_2_BY_PI = math.sqrt(2.0 / math.pi)


def _gelu_gradient(m: Any, g: Any, x: Any) -> Any:
    square = x * x
    near = square < 170.0  # further out the density is less than the smallest float32 that is not slow to compute with
    density = m.exp(m.where(near, square, 170.0) * -0.5) * (0.5 * _ROOT_2_BY_PI)
    return g * (m.ndtr_quick(x) + m.where(near, x * density, 0.0))


def _inner(x: Any) -> Any:
    return (x + x * x * x * 0.044715) * _ROOT_2_BY_PI


def _gelu_tanh_gradient(m: Any, g: Any, x: Any) -> Any:
    t = m.tanh(_inner(x))
    slope = (x * x * (3.0 * 0.044715) + 1.0) * _ROOT_2_BY_PI
    return g * ((t + 1.0) * 0.5 + x * 0.5 * (1.0 - t * t) * slope)


gelu_op = _declare("gelu", lambda m, x: x * m.ndtr_quick(x), real_floating_only, _gelu_gradient, exact_out=True)
gelu_tanh_op = _declare(
    "gelu_tanh", lambda m, x: x * 0.5 * (m.tanh(_inner(x)) + 1.0), real_floating_only, _gelu_tanh_gradient,
    backward_name="GeluBackward0", exact_out=True,
)  # fmt: skip


@_functional()
def gelu(input: Tensor, approximate: str = "none", *, out: Tensor | None = None) -> Tensor:
    """x times the normal distribution function of x; approximate="tanh" is cheaper.

    >>> import flambeau as torch
    >>> torch.nn.functional.gelu(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8413])
    """
    if (
        modes.overrides
        and (taken := _watched(gelu, (input,), **({} if approximate == "none" else {"approximate": approximate})))
        is not NotImplemented
    ):
        return taken
    if approximate == "none":
        return gelu_op.call(input, out=out)
    if approximate != "tanh":
        raise RuntimeError(f"approximate argument must be either none or tanh, got {approximate!r}")
    return gelu_tanh_op.call(input, out=out)


def _silu_gradient(m: Any, g: Any, x: Any) -> Any:
    s = m.sigmoid(x)
    return g * m.conj(s * ((1.0 - s) * x + 1.0))


silu_op = _declare("silu", lambda m, x: x * m.sigmoid(x), Rule("fc"), _silu_gradient)


_unit("silu", silu_op, "x * sigmoid(x).")


def _softplus(m: Any, x: Any) -> Any:
    """log(1 + exp(x)) for any x."""
    return -m.log_sigmoid(-x)


def _mish_factor(m: Any, x: Any) -> Any:
    """tanh(log(1 + exp(x))), which is n / (n + 2) with n = exp(2x) + 2 exp(x)."""
    e = m.exp(m.where(x > 20.0, 20.0, x))
    n = e * (e + 2.0)
    return n / (n + 2.0)


def _mish_gradient(m: Any, g: Any, x: Any) -> Any:
    t = _mish_factor(m, x)
    return g * (t + x * m.sigmoid(x) * (1.0 - t * t))


mish_op = _declare("mish", lambda m, x: x * _mish_factor(m, x), real_floating_only, _mish_gradient)


_unit("mish", mish_op, "x * tanh(log(1 + exp(x))).")


softplus_op = _declare(
    "softplus", lambda m, x, beta, limit: m.where(x * beta > limit, x, _softplus(m, x * beta) / beta),
    real_floating_only, params=("beta", "limit"), checked=True, exact_out=True,
    gradient=lambda m, g, x, beta, limit: m.where(x * beta > limit, g, g * m.sigmoid(x * beta)),
)  # fmt: skip
logsigmoid_op = _declare(
    "log_sigmoid", lambda m, x: m.log_sigmoid(x), real_floating_only, lambda m, g, x: g * m.sigmoid(-x), rows=True
)


@_functional()
def softplus(input: Tensor, beta: float = 1, threshold: float = 20, *, out: Tensor | None = None) -> Tensor:
    """log(1 + exp(beta x)) / beta; x itself where beta x is above the threshold."""
    if modes.overrides and (taken := _watched(softplus, (input, beta, threshold), out=out)) is not NotImplemented:
        return taken
    return softplus_op.call(input, beta, threshold, out=out)


@_functional()
def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log(sigmoid(x))."""
    if modes.overrides and (taken := _watched(logsigmoid, (input,), out=out)) is not NotImplemented:
        return taken
    return logsigmoid_op.call(input, out=out)


@_functional()
def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    if modes.overrides and (taken := _watched(softsign, (input,))) is not NotImplemented:
        return taken
    return input / (ops.abs(input) + 1)


@_functional()
def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    if modes.overrides and (taken := _watched(tanhshrink, (input,))) is not NotImplemented:
        return taken
    return input - ops.tanh(input)


# -- piecewise linear units --------------------------------------------------------------------------------------

hardsigmoid_op = _declare(
    "hardsigmoid", lambda m, x: m.minimum(m.maximum(x + 3.0, 0.0), 6.0) / 6.0, real_floating_only,
    lambda m, g, x: m.where((x > -3.0) & (x < 3.0), g * (1.0 / 6.0), m.zeros_like(g)),
)  # fmt: skip
hardswish_op = _declare(
    "hardswish", lambda m, x: x * m.minimum(m.maximum(x + 3.0, 0.0), 6.0) / 6.0, real_floating_only,
    lambda m, g, x: m.where(x <= -3.0, m.zeros_like(g), m.where(x < 3.0, g * (x / 3.0 + 0.5), g)),
)  # fmt: skip
hardshrink_op = _declare(
    "hardshrink", lambda m, x, limit: m.where((x >= -limit) & (x <= limit), m.zeros_like(x), x), real_floating_only,
    lambda m, g, x, limit: m.where((x >= -limit) & (x <= limit), m.zeros_like(g), g), params=("limit",),
    checked="narrow", exact_out=True,
)  # fmt: skip
softshrink_op = _declare(
    "softshrink",
    lambda m, x, limit: m.where(x > limit, x - limit, m.where(x < -limit, x + limit, x * 0.0)), real_floating_only,
    lambda m, g, x, limit: m.where((x >= -limit) & (x <= limit), m.zeros_like(g), g), params=("limit",),
    checked="narrow",
)  # fmt: skip


_unit("hardsigmoid", hardsigmoid_op, "x / 6 + 1/2, brought into [0, 1].")


_unit("hardswish", hardswish_op, "x * hardsigmoid(x).")


@_functional("hardshrink")
def hardshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """x outside [-lambd, lambd], 0 within."""
    if modes.overrides and (taken := _watched(hardshrink, (input, lambd), out=out)) is not NotImplemented:
        return taken
    return hardshrink_op.call(input, lambd, out=out)


@_functional()
def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """x brought nearer to zero by lambd, 0 within [-lambd, lambd]."""
    if modes.overrides and (taken := _watched(softshrink, (input, lambd), out=out)) is not NotImplemented:
        return taken
    if lambd < 0 or (input.dtype.itemsize == 2 and lambd > finfo(input.dtype).max):
        d = input.dtype
        most = finfo(d).max if d.category >= FLOATING else math.inf
        raise RuntimeError(
            f"lambda must be in range [0, {most:g}] for input dtype {type_name(d)}, but found {lambd:g}."
        )
    return softshrink_op.call(input, lambd, out=out)


methods["hardshrink"] = hardshrink


SCHEMAS = """
hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor
relu6|mish|hardsigmoid|hardswish(Tensor self) -> Tensor
leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor
threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor
selu(Tensor self) -> Tensor  # onnx
celu(Tensor self, Scalar alpha=1.) -> Tensor
gelu_(Tensor(a!) self, *, str approximate='none') -> Tensor(a!)
gelu(Tensor self, *, str approximate="none") -> Tensor  # autocast=whole, builtin
silu(Tensor self) -> Tensor  # autocast=whole
softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor  # autocast=cuda:single, builtin
hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor
softshrink(Tensor self, Scalar lambd=0.5) -> Tensor  # builtin
relu  # autocast=whole, onnx
relu_backward  # record=threshold_backward
logsigmoid  # builtin
softsign  # onnx
gelu_tanh  # record=gelu
gelu_backward|silu_backward|elu_backward|leaky_relu_backward|hardswish_backward|softplus_backward|hardtanh_backward  # record
"""
