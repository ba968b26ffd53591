"""Powers: tensors and numbers on either side, whole exponents, double precision on request."""

from __future__ import annotations

import cmath
import math
from typing import Any

from ..._core.dtypes import BOOL, COMPLEX, FLOATING, INTEGER, bool_, complex128, dtype, float64, scalar_dtype
from ..._core.state import modes
from ..._kernel.render.value import is_integer
from ..._tensor import Tensor
from .. import registry
from ..records.casting import checked_number
from ..records.declare import pointwise
from ..records.inplace import pointwise_in_place
from ..records.rules import floating_only, numeric
from ..registry import expose, ops, out_dtypes, public, relabel
from .arithmetic import square_op


def _pow(m: Any, x: Any, y: Any) -> Any:
    return m.integer_power(x, y) if is_integer(x.type) else m.pow(x, y)


def _by_base(m: Any, g: Any, x: Any, y: Any) -> Any:
    if not m.symbolic and not isinstance(y, Tensor):
        return m.zeros_like(g) if y == 0 else g * m.conj(y * m.pow(x, y - 1))
    return m.where(y == 0.0, m.zeros_like(g), g * m.conj(y * m.pow(x, y - 1.0)))


def _by_exponent(m: Any, g: Any, x: Any, y: Any, out: Any) -> Any:
    if not m.symbolic and not isinstance(x, Tensor):
        logarithm = -math.inf if x == 0 else cmath.log(x) if isinstance(x, complex) or x < 0 else math.log(x)
        if isinstance(logarithm, complex) and not isinstance(x, complex) and not m.is_complex(out):
            logarithm = math.nan
        if x != 0:
            return g * m.conj(out * logarithm)
        return m.where(_not_negative(m, y), m.zeros_like(g), g * m.conj(out * logarithm))
    certain = (x == 0.0) & _not_negative(m, y)
    if m.is_complex(out) and not m.is_complex(x):
        x = x + m.zeros_like(out)  # a negative number has a complex logarithm
    return m.where(certain, m.zeros_like(g), g * m.conj(out * m.log(x)))


def _not_negative(m: Any, y: Any) -> Any:
    if m.is_complex(y):
        return (m.real(y) >= 0.0) & (m.imag(y) == 0.0)
    return y >= 0.0


def _name(node: Any) -> str:
    """PyTorch numbers the forms: of a tensor by a number, of two tensors, of a number by a tensor."""
    base, exponent = node.saved[:2] if node.saved else (None, 0)
    return "PowBackward" + (
        "2" if isinstance(base, (int, float, complex)) else "1" if isinstance(exponent, Tensor) else "0"
    )


pow_op = pointwise(
    "pow", _pow, numeric, {"x": _by_base, "y": _by_exponent}, public=False, stepwise=True, backward_name=_name
)


def _power(m: Any, x: Any, exponent: float) -> Any:
    return m.pow(x, m.constant(exponent, x) if m.symbolic else exponent)


def _inverse_root(m: Any, x: Any) -> Any:
    return 1.0 / m.sqrt(x) if m.symbolic else m.pow(x, -0.5)


def _fixed(name: str, power: Any, derivative: Any, short: Any = None, rule: Any = floating_only) -> Any:
    return pointwise(
        name, power, rule, {"x": lambda m, g, x: g * m.conj(derivative(m, x))}, public=False, stepwise=True,
        backward_name="PowBackward0", short=short, short_types=("bf16",), samples=(0.2, 3.0),
    )  # fmt: skip


# exponents of which the power or its derivative has a cheaper form: for all dtypes but bool, and for floating ones
_WHOLE = {
    2: square_op,
    3: _fixed(
        "cube", lambda m, x: x * x * x, lambda m, x: x * x * 3.0, lambda m, cut, x: cut(x * x) * x, numeric
    ),
}  # fmt: skip
_FLOATING = {
    0.5: _fixed("pow_half", lambda m, x: m.sqrt(x), lambda m, x: _inverse_root(m, x) * 0.5),
    -0.5: _fixed("pow_minus_half", lambda m, x: 1.0 / m.sqrt(x), lambda m, x: _power(m, x, -1.5) * -0.5),
    -1: _fixed("pow_minus_1", lambda m, x: 1.0 / x, lambda m, x: -(1.0 / (x * x))),
    -2: _fixed(
        "pow_minus_2", lambda m, x: 1.0 / (x * x), lambda m, x: _power(m, x, -3.0) * -2.0,
        lambda m, cut, x: 1.0 / cut(x * x),
    ),
    1.5: _fixed("pow_3_halves", lambda m, x: _power(m, x, 1.5), lambda m, x: m.sqrt(x) * 1.5),
    4: _fixed(
        "pow_4", lambda m, x: _power(m, x, 4.0), lambda m, x: (x * x * x if m.symbolic else m.pow(x, 3)) * 4.0
    ),
}  # fmt: skip


def _record(input: Any, exponent: Any) -> Any:
    """The record that computes a power, and the arguments for it."""
    kind = exponent.__class__
    if kind is bool and isinstance(input, Tensor) and input.dtype.category >= FLOATING:
        kind, exponent = int, int(exponent)
    if (kind is int or kind is float) and isinstance(input, Tensor):
        category = input.dtype.category
        if category >= FLOATING:
            op = _WHOLE.get(exponent) or _FLOATING.get(exponent)
            if op is not None:
                return op, ()
        elif kind is int and category != BOOL:
            if exponent < 0:
                raise RuntimeError("Integers to negative integer powers are not allowed.")
            op = _WHOLE.get(exponent)
            if op is not None:
                return op, ()
        elif kind is int and exponent < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        whole = category == INTEGER and kind is int
        if whole or (category == FLOATING and input.dtype.itemsize == 2):  # other floats become infinite
            checked_number(exponent, input.dtype)
    return pow_op, (exponent,)


def _is_trivial(exponent: Any) -> bool:
    """Whether it is 0 or 1: by way of logarithms such powers of complex elements are not exact, and 0 ** 0 is not a number."""
    return isinstance(exponent, (int, float, complex)) and exponent in (0, 1)


def pow(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
    """input ** exponent; either may be a number.

    >>> import flambeau as torch
    >>> torch.pow(torch.tensor([1.0, 2.0, 3.0]), 2)
    tensor([1., 4., 9.])
    """
    if out is not None:
        return registry.into_out(out, pow, (input, exponent), {})
    if exponent.__class__ is bool and isinstance(input, Tensor) and input.dtype.category == BOOL:
        return ops.logical_or(input, ops.new_full(input, (), not exponent))
    trivial = isinstance(input, Tensor) and input.dtype.category == COMPLEX and _is_trivial(exponent)
    op, rest = (pow_op, ()) if trivial else _record(input, exponent)
    if modes.overrides and not rest:  # others see a power, not the record of this one
        taken = registry.overridden(pow, (input, exponent), {})
        if taken is not NotImplemented:
            return taken
    if trivial:
        one = ops.new_full(input, (), 1)
        made = ops.clone(input) if exponent == 1 else ops.where(ops.ones_like(input, dtype=bool_), one, input)
        return relabel(made, "PowBackward0")
    return op.call(input, *rest)


def pow_(input: Tensor, exponent: Any) -> Tensor:
    """input **= exponent, in place."""
    if not isinstance(input, Tensor):
        raise TypeError(f"pow_(): argument 'input' must be Tensor, not {type(input).__name__}")
    if input.dtype.category == COMPLEX and _is_trivial(exponent):
        return input if exponent == 1 else ops.fill_(input, 1)
    op, rest = _record(input, exponent)
    return pointwise_in_place(op, input, *rest)


expose("pow", pow)
expose("pow_", pow_, None)
pow_op.public = pow  # type: ignore[attr-defined]


def _doubled(value: Any, d: dtype) -> Any:
    return ops.to_dtype(value, d) if isinstance(value, Tensor) and value.dtype is not d else value


def _category(value: Any) -> int:
    return value.dtype.category if isinstance(value, Tensor) else scalar_dtype(value).category


@public(out=True, inplace=lambda input, exponent: _float_power_(input, exponent))
@out_dtypes("the output given to float_power has dtype {out} but the operation's result requires dtype {made}")
def float_power(input: Any, exponent: Any) -> Tensor:
    """input ** exponent in double precision.

    >>> import flambeau as torch
    >>> torch.float_power(torch.tensor([2, 3]), 2)
    tensor([4., 9.], dtype=torch.float64)
    """
    d = complex128 if COMPLEX in (_category(input), _category(exponent)) else float64
    return pow(_doubled(input, d), _doubled(exponent, d))


def _float_power_(input: Tensor, exponent: Any) -> Tensor:
    d = complex128 if COMPLEX in (_category(input), _category(exponent)) else float64
    if input.dtype is not d:
        raise RuntimeError(f"float_power_: the base has dtype {input.dtype}, but the result requires dtype {d}")
    return pow_(input, _doubled(exponent, d))


SCHEMAS = """
pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor  # autocast=cuda:single
pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor
pow.Scalar(Scalar self, Tensor exponent) -> Tensor
pow_.Scalar(Tensor(a!) self, Scalar exponent) -> Tensor(a!)
pow_|float_power_.Tensor(Tensor(a!) self, Tensor exponent) -> Tensor(a!)
float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor
float_power.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor
float_power.Scalar(Scalar self, Tensor exponent) -> Tensor
float_power_.Scalar(Tensor(a!) self, Scalar exponent) -> Tensor(a!)
cube  # record=pow, number=3
pow_4  # record=pow, number=4
pow_half  # record=pow, number=0.5
pow_3_halves  # record=pow, number=1.5
pow_minus_1  # record=pow, number=-1
pow_minus_2  # record=pow, number=-2
pow_minus_half  # record=pow, number=-0.5
"""
