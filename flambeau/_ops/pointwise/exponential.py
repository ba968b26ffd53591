"""Exponentials, logarithms and what is made of them."""

from __future__ import annotations

import math
from typing import Any

from ..._tensor import Tensor
from ..records.declare import pointwise
from ..records.rules import floating, floating_only, real_floating, real_floating_only
from ..registry import public

_LN2, _LN10 = math.log(2.0), math.log(10.0)

exp_op = pointwise("exp", lambda m, x: m.exp(x), floating, {"x": lambda m, g, out: g * m.conj(out)})
exp2_op = pointwise(
    "exp2", lambda m, x: m.exp2(x), floating, {"x": lambda m, g, out: g * m.conj(out * _LN2)},
    aliases=("special.exp2",),
)  # fmt: skip
expm1_op = pointwise(
    "expm1", lambda m, x: m.expm1(x), floating, {"x": lambda m, g, out: g * m.conj(out + 1.0)},
    aliases=("special.expm1",),
)  # fmt: skip
log_op = pointwise("log", lambda m, x: m.log(x), floating, {"x": lambda m, g, x: g / m.conj(x)})
log2_op = pointwise("log2", lambda m, x: m.log2(x), floating, {"x": lambda m, g, x: g / m.conj(x * _LN2)})
log10_op = pointwise("log10", lambda m, x: m.log10(x), floating, {"x": lambda m, g, x: g / m.conj(x * _LN10)})
log1p_op = pointwise(
    "log1p", lambda m, x: m.log1p(x), floating, {"x": lambda m, g, x: g / m.conj(x + 1.0)},
    aliases=("special.log1p",),
)  # fmt: skip
sigmoid_op = pointwise(
    "sigmoid", lambda m, x: m.sigmoid(x), floating, {"x": lambda m, g, out: g * m.conj((1.0 - out) * out)},
    aliases=("special.expit", "nn.functional.sigmoid"),
)  # fmt: skip


def _larger_smaller(m: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Both operands, the one with the larger real part first."""
    swap = m.real(x) < m.real(y)
    return m.where(swap, y, x), m.where(swap, x, y)


def _log_sum(m: Any, x: Any, y: Any, exp: Any, log1p: Any) -> Any:
    large, small = _larger_smaller(m, x, y)
    total = large + log1p(exp(small - large))
    same = (x == y) & ~m.isfinite(x)  # infinities of one sign
    return m.where(same, x, total)


def _log1p_base2(m: Any) -> Any:
    return lambda x: m.log1p(x) * (1.0 / _LN2)


logaddexp_op = pointwise(
    "logaddexp", lambda m, x, y: _log_sum(m, x, y, m.exp, m.log1p), floating_only, numbers="none", inplace=False,
    stepwise=True,
    grad={
        "x": lambda m, g, x, y: g / m.conj(m.exp(y - x) + 1.0),
        "y": lambda m, g, x, y: g / m.conj(m.exp(x - y) + 1.0),
    },
)  # fmt: skip
logaddexp2_op = pointwise(
    "logaddexp2", lambda m, x, y: _log_sum(m, x, y, m.exp2, _log1p_base2(m)), real_floating_only, numbers="none",
    inplace=False, stepwise=True,
    grad={
        "x": lambda m, g, x, y: g / (m.exp2(y - x) + 1.0),
        "y": lambda m, g, x, y: g / (m.exp2(x - y) + 1.0),
    },
)  # fmt: skip

xlogy_op = pointwise(
    "xlogy", lambda m, x, y: m.where(m.isnan(y), y, m.where(x == 0.0, m.zeros_like(x), x * m.log(y))), real_floating,
    aliases=("special.xlogy",), stepwise=True, number_names={"x": "XlogyBackward1", "y": "XlogyBackward2"},
    grad={
        "x": lambda m, g, x, y: m.where((y <= 0.0) & ((x == 0.0) | (g == 0.0)), m.zeros_like(g), g * m.log(y)),
        "y": lambda m, g, x, y: g * x / y,
    },
)  # fmt: skip
xlog1py_op = pointwise(
    "special_xlog1py", lambda m, x, y: m.where(m.isnan(y), y, m.where(x == 0.0, m.zeros_like(x), x * m.log1p(y))),
    real_floating, paths=("special.xlog1py",), method=False, inplace=False, stepwise=True,
    grad={
        "x": lambda m, g, x, y: m.where((x == 0.0) & (y <= -1.0), m.zeros_like(g), g * m.log1p(y)),
        "y": lambda m, g, x, y: g * x / (y + 1.0),
    },
)  # fmt: skip

# eps < 0 stands for none
logit_op = pointwise(
    "logit_clamped",
    lambda m, x, eps: _logit(m, m.where(eps < 0.0, x, m.minimum(m.maximum(x, eps), 1.0 - eps))),
    real_floating, params=("eps",), public=False, checked="narrow", backward_name="LogitBackward0",
    short=lambda m, cut, x, eps: _logit(m, m.where(eps < 0.0, x, m.minimum(m.maximum(x, eps), 1.0 - eps)), cut),
    grad={"x": lambda m, g, x, eps: _logit_gradient(m, g, x, eps)},
)  # fmt: skip


def _logit(m: Any, x: Any, cut: Any = lambda x: x) -> Any:
    return m.log(cut(x / cut(1.0 - x)))


def _logit_gradient(m: Any, g: Any, x: Any, eps: Any) -> Any:
    slope = g / (x * (1.0 - x))
    if m.symbolic:
        bare = eps < 0.0
        low, high = m.where(bare, m.zeros_like(eps), eps), m.where(bare, m.ones_like(eps), 1.0 - eps)
        outside = m.where(bare, math.nan, m.zeros_like(g))
    else:
        low, high = (0.0, 1.0) if eps < 0.0 else (eps, 1.0 - eps)
        outside = m.zeros_like(g) * (math.nan if eps < 0.0 else 1.0)
    return m.where((x < low) | (x > high), outside, slope)


@public("logit", "special.logit", out=True, inplace=True)
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), with x first brought into [eps, 1 - eps] if eps is given.

    >>> import flambeau as torch
    >>> torch.logit(torch.tensor([0.5]))
    tensor([0.])
    """
    return logit_op.call(input, -1.0 if eps is None else float(eps))


SCHEMAS = """
logaddexp|logaddexp2|special_xlogy|special_xlog1py(Tensor self, Tensor other) -> Tensor
xlogy.Tensor(Tensor self, Tensor other) -> Tensor
xlogy.Scalar_Other(Tensor self, Scalar other) -> Tensor
xlogy.Scalar_Self(Scalar self, Tensor other) -> Tensor
xlogy.OutTensor(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)
xlogy.OutScalar_Self(Scalar self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)
xlogy.OutScalar_Other(Tensor self, Scalar other, *, Tensor(a!) out) -> Tensor(a!)
special_xlogy|special_xlog1py.other_scalar(Tensor self, Scalar other) -> Tensor
special_xlogy|special_xlog1py.self_scalar(Scalar self, Tensor other) -> Tensor
logit(Tensor self, float? eps=None) -> Tensor
exp|log  # autocast=cuda:single, onnx
expm1|log10|log1p|log2  # autocast=cuda:single
sigmoid  # onnx
sigmoid_backward  # record
"""
