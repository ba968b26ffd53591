"""Circular and hyperbolic functions, their inverses, and angles."""

from __future__ import annotations

import math
from typing import Any

from ..records.declare import pointwise
from ..records.rules import Refusing, floating, real_floating

sin_op = pointwise("sin", lambda m, x: m.sin(x), floating, {"x": lambda m, g, x: g * m.conj(m.cos(x))})
cos_op = pointwise("cos", lambda m, x: m.cos(x), floating, {"x": lambda m, g, x: g * m.conj(-m.sin(x))})
tan_op = pointwise("tan", lambda m, x: m.tan(x), floating, {"x": lambda m, g, out: g * m.conj(out * out + 1.0)})
asin_op = pointwise(
    "asin", lambda m, x: m.asin(x), floating, {"x": lambda m, g, x: g * m.conj(m.rsqrt(1.0 - x * x))},
    aliases=("arcsin",),
)  # fmt: skip
acos_op = pointwise(
    "acos", lambda m, x: m.acos(x), floating, {"x": lambda m, g, x: g * m.conj(-m.rsqrt(1.0 - x * x))},
    aliases=("arccos",),
)  # fmt: skip
atan_op = pointwise(
    "atan", lambda m, x: m.atan(x), floating, {"x": lambda m, g, x: g / m.conj(x * x + 1.0)}, aliases=("arctan",)
)
sinh_op = pointwise("sinh", lambda m, x: m.sinh(x), floating, {"x": lambda m, g, x: g * m.conj(m.cosh(x))})
cosh_op = pointwise("cosh", lambda m, x: m.cosh(x), floating, {"x": lambda m, g, x: g * m.conj(m.sinh(x))})
tanh_op = pointwise(
    "tanh", lambda m, x: m.tanh(x), floating, {"x": lambda m, g, out: g * m.conj(1.0 - out * out)},
    aliases=("nn.functional.tanh",),
)  # fmt: skip
asinh_op = pointwise(
    "asinh", lambda m, x: m.asinh(x), floating, {"x": lambda m, g, x: g * m.conj(m.rsqrt(x * x + 1.0))},
    aliases=("arcsinh",), in_place_name="AsinhBackward1",
)  # fmt: skip


def _acosh_gradient(m: Any, g: Any, x: Any) -> Any:
    """1 / sqrt(x^2 - 1): below -1, too, where the function is NaN and a mask may hide it."""
    size = x if m.is_complex(x) else m.abs(x)
    return g * m.conj(m.rsqrt(size - 1.0) * m.rsqrt(size + 1.0))


acosh_op = pointwise(
    "acosh", lambda m, x: m.acosh(x), floating,
    {"x": _acosh_gradient}, aliases=("arccosh",),
    in_place_name="AcoshBackward1",
)  # fmt: skip
atanh_op = pointwise(
    "atanh", lambda m, x: m.atanh(x), floating, {"x": lambda m, g, x: g / m.conj(1.0 - x * x)}, aliases=("arctanh",),
    in_place_name="AtanhBackward1",
)  # fmt: skip


def _sinc_gradient(m: Any, g: Any, x: Any) -> Any:
    """(cos(pi x) pi x - sin(pi x)) / (pi x^2), 0 at 0."""
    angle = x * math.pi
    square = x * x * math.pi
    slope = (angle * m.cos(angle) - m.sin(angle)) / square
    return m.where(square == 0.0, m.zeros_like(g), g * m.conj(slope))


sinc_op = pointwise(
    "sinc", lambda m, x: m.sinc(x), floating, {"x": _sinc_gradient}, aliases=("special.sinc",), stepwise=True
)


def _atan2_gradient(m: Any, g: Any, other: Any, x: Any, y: Any) -> Any:
    square = x * x + y * y
    return m.where(square == 0.0, m.zeros_like(g), g * other * m.reciprocal(square))


atan2_op = pointwise(
    "atan2", lambda m, x, y: m.atan2(x, y), real_floating, aliases=("arctan2",), numbers="none", stepwise=True,
    grad={
        "x": lambda m, g, x, y: _atan2_gradient(m, g, y, x, y),
        "y": lambda m, g, x, y: _atan2_gradient(m, g, -x, x, y),
    },
)  # fmt: skip

_angles = Refusing("c", "not supported for complex tensors.", "bif", to_float=True)
deg2rad_op = pointwise(
    "deg2rad", lambda m, x: x * (math.pi / 180.0), _angles, {"x": lambda m, g: g * (math.pi / 180.0)}
)
rad2deg_op = pointwise(
    "rad2deg", lambda m, x: x * (180.0 / math.pi), _angles, {"x": lambda m, g: g * (180.0 / math.pi)}
)


SCHEMAS = """
atan2(Tensor self, Tensor other) -> Tensor  # autocast=cuda:widest
acos|asin|cosh|sinh|tan  # autocast=cuda:single, onnx
tanh|sin|cos|atan|asinh|acosh|atanh  # onnx
tanh_backward  # record
"""
