"""Arithmetic between tensors and numbers: + - * / and their relatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._autograd import engine
from ..._backend.cpu import cpu
from ..._core.dtypes import BOOL, COMPLEX, FLOATING, INTEGER, scalar_dtype
from ..._core.state import GRAD, modes
from ..._kernel.loops.lang import kernel
from ..._kernel.math import division as division  # registers functions of `m`
from ..._kernel.render.value import is_float
from ..._tensor import Tensor
from .. import registry
from ..records.casting import check_width, checked_number
from ..records.declare import pointwise
from ..records.inplace import pointwise_in_place
from ..records.refusals import is_met, refusal
from ..records.rules import Rule, floating, no_bool_difference, no_bool_negation, numeric, real, real_numeric, ring
from ..registry import functions, methods, older_form, ops, public, relabel

# -- sums --------------------------------------------------------------------------------------------------------


def _sum(m: Any, x: Any, y: Any) -> Any:
    return x | y if x.type == "b1" else x + y


def _sum_scaled(m: Any, x: Any, y: Any, alpha: Any) -> Any:
    """x + alpha * y; rounded once, as PyTorch does it."""
    if is_float(x.type):
        return m.fma(y, alpha, x)
    return _sum(m, x, y & alpha if y.type == "b1" else y * alpha)


def _difference_scaled(m: Any, x: Any, y: Any, alpha: Any) -> Any:
    return m.fma(y, -alpha, x) if is_float(x.type) else x - y * alpha


add_op = pointwise("add", _sum, ring, grad={"x": lambda m, g: g, "y": lambda m, g: g}, public=False)
sub_op = pointwise(
    "sub", lambda m, x, y: x - y, no_bool_difference, {"x": lambda m, g: g, "y": lambda m, g: -g}, public=False
)
rsub_op = pointwise(
    "rsub",
    lambda m, x, y: y - x,
    no_bool_difference,
    {"x": lambda m, g: -g, "y": lambda m, g: g},
    public=False,
    numbers="right",
    backward_name="RsubBackward1",
)
add_scaled_op = pointwise(
    "add_scaled", _sum_scaled, ring, params=("alpha",), public=False,
    grad={"x": lambda m, g: g, "y": lambda m, g, alpha: g * m.conj(alpha)}, backward_name="AddBackward0",
)  # fmt: skip
sub_scaled_op = pointwise(
    "sub_scaled", _difference_scaled, no_bool_difference, params=("alpha",), public=False,
    grad={"x": lambda m, g: g, "y": lambda m, g, alpha: -g * m.conj(alpha)}, backward_name="SubBackward0",
)  # fmt: skip


def number(value: Any) -> Any:
    """A factor; a tensor of no dimension may stand for it, as in PyTorch."""
    if isinstance(value, Tensor):
        if value._array.ndim or value._k & GRAD:
            raise TypeError("expected a number, got a tensor of several elements, or one that requires grad")
        return value.item()
    return value


def _checked_alpha(name: str, input: Any, other: Any, alpha: Any) -> Any:
    """The factor, which may not be of a higher category than the result."""
    if (
        alpha.__class__ is float
        and isinstance(input, Tensor)
        and input.dtype.category >= FLOATING
        and -128 < alpha < 128
    ):
        return alpha
    alpha = number(alpha)
    check_width(alpha)
    given = scalar_dtype(alpha)
    highest = max(a.dtype.category if isinstance(a, Tensor) else scalar_dtype(a).category for a in (input, other))
    if given.category == BOOL and highest != BOOL:
        raise RuntimeError(f"{name}: Boolean alpha only supported for Boolean results.")
    if given.category > max(highest, INTEGER) or (highest == BOOL and given.category > INTEGER):
        kind = "integral input tensors" if highest < FLOATING else "non-complex input tensors"
        raise RuntimeError(f"{name}: For {kind}, argument alpha must not be a number of a higher kind.")
    checked_number(alpha if name[:3] == "add" or given.category == BOOL else -alpha, add_op.common((input, other)))
    return alpha


def _operand(name: str, input: Any) -> None:
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): argument 'input' must be Tensor, not {type(input).__name__}")


def _scaled(function: Any, op: Any, input: Tensor, other: Any, alpha: Any, out: Tensor | None) -> Tensor:
    """`add` or `sub` with another factor than 1."""
    if out is not None:
        return registry.into_out(out, function, (input, other), {"alpha": alpha})
    if modes.overrides:
        taken = registry.watched(function, (input, other), {"alpha": alpha})
        if taken is not NotImplemented:
            return taken
    return op.call(input, other, _checked_alpha(function.__name__, input, other, alpha))


def add(input: Tensor, other: Any, *more: Any, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """input + alpha * other.

    >>> import flambeau as torch
    >>> torch.add(torch.tensor([1, 2]), torch.tensor([10, 20]), alpha=2)
    tensor([21, 42])
    """
    if more:  # the older order (input, alpha, other)
        alpha, (other,) = older_form("add", other, more), more
    if alpha.__class__ is int and alpha == 1:
        return add_op.call(input, other) if out is None else add_op.call(input, other, out=out)
    return _scaled(add, add_scaled_op, input, other, alpha, out)


def sub(input: Tensor, other: Any, *more: Any, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """input - alpha * other.

    >>> import flambeau as torch
    >>> torch.sub(torch.tensor([1.0, 2.0]), 1)
    tensor([0., 1.])
    """
    if more:  # the older order (input, alpha, other)
        alpha, (other,) = older_form("sub", other, more), more
    if alpha.__class__ is int and alpha == 1:
        return sub_op.call(input, other) if out is None else sub_op.call(input, other, out=out)
    return _scaled(sub, sub_scaled_op, input, other, alpha, out)


def rsub(input: Tensor, other: Any, *, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """other - alpha * input."""
    if alpha.__class__ is int and alpha == 1:
        if out is not None:
            return rsub_op.call(input, other, out=out)
        if isinstance(other, Tensor) and isinstance(input, Tensor):
            return relabel(sub_op.call(other, input), "RsubBackward0")
        return rsub_op.call(input, other)
    if out is not None:
        return registry.into_out(out, rsub, (input, other), {"alpha": alpha})
    alpha = _checked_alpha("rsub", input, other, alpha)
    return relabel(sub_scaled_op.call(other, input, alpha), f"RsubBackward{0 if isinstance(other, Tensor) else 1}")


def add_(input: Tensor, other: Any, *more: Any, alpha: Any = 1) -> Tensor:
    """input += alpha * other, in place."""
    _operand("add_", input)
    if more:  # the older order (input, alpha, other)
        alpha, (other,) = older_form("add_", other, more), more
    if alpha.__class__ is int and alpha == 1:
        return pointwise_in_place(add_op, input, other)
    alpha = _checked_alpha("add_", input, other, alpha)
    return pointwise_in_place(add_scaled_op, input, other, alpha)


def sub_(input: Tensor, other: Any, *more: Any, alpha: Any = 1) -> Tensor:
    """input -= alpha * other, in place."""
    _operand("sub_", input)
    if more:  # the older order (input, alpha, other)
        alpha, (other,) = older_form("sub_", other, more), more
    if alpha.__class__ is int and alpha == 1:
        return pointwise_in_place(sub_op, input, other)
    alpha = _checked_alpha("sub_", input, other, alpha)
    return pointwise_in_place(sub_scaled_op, input, other, alpha)


mul_op = pointwise(
    "mul", lambda m, x, y: x & y if x.type == "b1" else x * y, ring, aliases=("multiply",),
    grad={"x": lambda m, g, y: g * m.conj(y), "y": lambda m, g, x: g * m.conj(x)},
)  # fmt: skip

mul_op.wide_number = pointwise(
    "mul_number", lambda m, x, y: x * y, ring, params=("y",), grad={"x": lambda m, g, y: g * y}, public=False,
    backward_name="MulBackward0",
)  # fmt: skip

# -- quotients ---------------------------------------------------------------------------------------------------

div_op = pointwise(
    "div", lambda m, x, y: x / y, floating, public=False, stepwise=True,
    grad={"x": lambda m, g, y: g / m.conj(y), "y": lambda m, g, x, y: -g * m.conj((x / y) / y)},
)  # fmt: skip
div_op.wide_number = pointwise(
    "div_number", lambda m, x, y: x / y, floating, params=("y",), grad={"x": lambda m, g, y: g / y}, public=False,
    backward_name="DivBackward0",
)  # fmt: skip
# a number over a tensor: the reciprocal times the number, as PyTorch computes it
rdiv_op = pointwise(
    "rdiv", lambda m, x, y: 1.0 / x * y, floating, public=False, numbers="right", stepwise=True,
    grad={"x": lambda m, g, x, y: -(g * m.conj(y)) * m.conj(1.0 / x * (1.0 / x)), "y": lambda m, g, x: g * m.conj(1.0 / x)},
    short=lambda m, cut, x, y: cut(1.0 / x) * y, backward_name="MulBackward0",
)  # fmt: skip
rdiv_op.wide_number = pointwise(
    "rdiv_number", lambda m, x, y: 1.0 / x * y, floating, params=("y",), public=False, stepwise=True,
    grad={"x": lambda m, g, x, y: -(g * y) * m.conj(1.0 / x * (1.0 / x))},
    short=lambda m, cut, x, y: cut(1.0 / x) * y, backward_name="MulBackward0",
)  # fmt: skip
_no_gradient = {"x": lambda m, g: m.zeros_like(g), "y": lambda m, g: m.zeros_like(g)}
floor_divide_op = pointwise("floor_divide", lambda m, x, y: m.floor_divide(x, y), real_numeric, {}, public=False)
div_floor_op = pointwise(
    "div_floor", lambda m, x, y: m.floor_divide(x, y), real_numeric, _no_gradient, public=False,
    backward_name="DivBackward2",
)  # fmt: skip
div_trunc_op = pointwise(
    "div_trunc", lambda m, x, y: m.div_trunc(x, y), real_numeric, _no_gradient, public=False,
    short=lambda m, cut, x, y: m.trunc(cut(x / y)),
    backward_name="DivBackward2",
)  # fmt: skip
remainder_op = pointwise(
    "remainder", lambda m, x, y: m.remainder(x, y), real_numeric, public=False,
    backward_name="RemainderBackward1", number_names={"y": "RemainderBackward0"},
    grad={"x": lambda m, g: g, "y": lambda m, g, x, y: -g * m.div_floor(x, y)},
)  # fmt: skip
fmod_op = pointwise(
    "fmod", lambda m, x, y: m.fmod(x, y), real_numeric, public=False, numbers="right",
    backward_name="FmodBackward1", number_names={"y": "FmodBackward0"},
    grad={"x": lambda m, g: g, "y": lambda m, g, x, y: -g * m.div_trunc(x, y)},
)  # fmt: skip
_WHOLE = (int, np.integer, np.bool_)
_ROUNDED = {"floor": div_floor_op, "trunc": div_trunc_op}


def _check_divisor(input: Any, other: Any) -> None:
    """Integers cannot be divided by zero; the kernel itself must not meet it. A number, or a tensor without dimensions, is a zero
    if it is one in the dtype of the tensor that it divides: 256 beside uint8."""
    if isinstance(other, Tensor):
        if other.dtype.category < FLOATING:
            left = input.dtype.category if isinstance(input, Tensor) else scalar_dtype(input).category
            if left < FLOATING and other._array.size:
                # input's dtype holds beside a tensor without dimensions
                narrow = not other._array.ndim and isinstance(input, Tensor) and input._array.ndim
                _check_zeros(other, 8 * input.dtype.itemsize if narrow and input.dtype.category != BOOL else 0)
    elif isinstance(other, _WHOLE) and isinstance(input, Tensor) and input.dtype.category < FLOATING:
        wide = not -256 < other < 256 and input.dtype.category != BOOL
        if other == 0 or (wide and _wraps_to_zero(int(other), 8 * input.dtype.itemsize)):
            raise RuntimeError("ZeroDivisionError")


@refusal
def _check_zeros(backend: Any, x: Any, bits: int) -> None:
    if x.__class__ is np.ndarray:  # the quickest to call; what a program watches has another class
        found = np.count_nonzero(x) != x.size
    else:
        found = is_met(_has_zero, x) if backend is cpu and x.dtype != np.bool_ else not x.all()
    if found or (bits and _wraps_to_zero(int(x), bits)):
        raise RuntimeError("ZeroDivisionError")


@kernel("(n)->()")
def _has_zero(m: Any, x: Any, found: Any) -> None:
    zero = m.value(0, "b1")
    for i in range(x.n):
        zero = zero | (x[i] == 0)
    found[()] = zero


def _wraps_to_zero(number: int, bits: int) -> bool:
    """Whether a number that is not zero becomes zero in integers of so many bits."""
    return bits < 64 and number % (1 << bits) == 0 and number.bit_length() <= 64


def _division(input: Any, other: Any, rounding_mode: str | None) -> Any:
    """The record for a rounding mode, after its checks."""
    if rounding_mode is None:
        return div_op
    if not isinstance(rounding_mode, str):
        raise TypeError(f"div(): argument 'rounding_mode' must be str, not {type(rounding_mode).__name__}")
    op = _ROUNDED.get(rounding_mode)
    if op is None:
        raise RuntimeError(f"div: rounding_mode must be None, 'trunc' or 'floor', got {rounding_mode!r}")
    _check_divisor(input, other)
    return op


def div(input: Tensor, other: Any, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:
    """input / other; rounded towards zero ('trunc') or down ('floor') if asked.

    >>> import flambeau as torch
    >>> torch.div(torch.tensor([-7, 7]), 2, rounding_mode="floor")
    tensor([-4,  3])
    """
    if rounding_mode is None:
        return div_op.call(input, other) if out is None else div_op.call(input, other, out=out)
    if out is not None:
        return registry.into_out(out, div, (input, other), {"rounding_mode": rounding_mode})
    return _division(input, other, rounding_mode).call(input, other)


def div_(input: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """input /= other, in place."""
    _operand("div_", input)
    return pointwise_in_place(_division(input, other, rounding_mode), input, other)


def _rdiv(self: Tensor, other: Any) -> Tensor:
    return ops.mul(ops.reciprocal(self), other) if isinstance(other, Tensor) else rdiv_op.call(self, other)


def _with_aliases(function: Any, changed: Any, names: tuple[str, ...]) -> None:
    """Public as they are, for speed: the records they call see to overrides."""
    for name in names:
        functions[name] = methods[name] = function
        if changed is not None:
            methods[name + "_"] = changed


_with_aliases(add, add_, ("add",))
_with_aliases(sub, sub_, ("sub", "subtract"))
_with_aliases(rsub, None, ("rsub",))
_with_aliases(div, div_, ("div", "divide"))
methods["__div__"], methods["__idiv__"] = div_op.call, div_
methods["__rdiv__"] = _rdiv
_rdiv.__name__ = "__rdiv__"
for _changed in (add_, sub_, div_):
    setattr(ops, _changed.__name__, _changed)
for _op, _function in ((add_op, add), (sub_op, sub), (rsub_op, rsub), (div_op, div), (rdiv_op, _rdiv)):
    _op.public = _function  # type: ignore[attr-defined]
true_divide_op = pointwise("true_divide", div_op.body, floating, {
    "x": lambda m, g, y: g / m.conj(y), "y": lambda m, g, x, y: -g * m.conj((x / y) / y),
}, backward_name="DivBackward0", stepwise=True)  # fmt: skip

for _op in (
    add_op,
    sub_op,
    add_scaled_op,
    sub_scaled_op,
    mul_op,
    div_op,
    floor_divide_op,
    div_floor_op,
    div_trunc_op,
    true_divide_op,
):
    _op.number_pairs = True


def _checked(op: Any) -> tuple[Any, Any]:
    """The two forms of a record whose integer divisor must not be zero."""

    def call(input: Any, other: Any) -> Tensor:
        _check_divisor(input, other)
        return op.call(input, other)

    def changed(input: Tensor, other: Any) -> Tensor:
        _operand(op.name + "_", input)
        _check_divisor(input, other)
        return pointwise_in_place(op, input, other)

    call.__name__ = call.__qualname__ = op.name
    return call, changed


for _op, _text in (
    (floor_divide_op, "The quotient rounded down, as Python's //."),
    (remainder_op, "What floor division leaves: it has the sign of `other`."),
    (fmod_op, "What division rounded towards zero leaves: it has the sign of `input`."),
):
    _function, _changed = _checked(_op)
    _function.__doc__ = _text
    public(out=True, inplace=_changed)(_function)

# -- one operand -------------------------------------------------------------------------------------------------

neg_op = pointwise(
    "neg", lambda m, x: -x, no_bool_negation, {"x": lambda m, g: -g}, aliases=("negative",), exact_out=True
)
reciprocal_op = pointwise("reciprocal", lambda m, x: 1.0 / x, floating, {"x": lambda m, g, out: -g * m.conj(out * out)})
square_op = pointwise(
    "square", lambda m, x: x * x, numeric, {"x": lambda m, g, x: g * m.conj(x * 2.0)}, public=False,
    backward_name="PowBackward0",
)  # fmt: skip
sqrt_op = pointwise("sqrt", lambda m, x: m.sqrt(x), floating, {"x": lambda m, g, out: g / m.conj(out * 2.0)})
rsqrt_op = pointwise(
    "rsqrt", lambda m, x: m.rsqrt(x), floating, {"x": lambda m, g, out: g * -0.5 * m.conj(out * out * out)}
)


def abs_(input: Tensor) -> Tensor:
    """Absolute values, in place."""
    _operand("abs_", input)
    if input.dtype.category == COMPLEX:
        raise RuntimeError("In-place abs is not supported for complex tensors.")
    return pointwise_in_place(abs_op, input)


abs_op = pointwise(
    "abs", lambda m, x: m.abs(x), Rule("ifc", result="real", short_complex=True), {"x": lambda m, g, x: g * m.sgn(x)},
    aliases=("absolute",), inplace=False, exact_out=True,
)  # fmt: skip


for _name in ("abs_", "absolute_"):
    methods[_name] = functions[_name] = abs_
setattr(ops, "abs_", abs_)  # noqa: B010


def _sign(m: Any, x: Any) -> Any:
    """-1, 0 or 1; 0 for NaN."""
    if m.is_complex(x):
        return m.sgn(x)
    if x.type[0] in "bu":
        return x if x.type == "b1" else m.cast(x != 0, x.type)
    return m.where(x > 0, m.constant(1, x), m.where(x < 0, m.constant(-1, x), 0))


sign_op = pointwise("sign", _sign, real, {"x": lambda m, g: m.zeros_like(g)}, exact_out=True)


def _sgn_gradient(m: Any, g: Any, x: Any, out: Any) -> Any:
    """Zero for real values; a complex sign turns with the part of g across it."""
    if not m.is_complex(x):
        return m.zeros_like(g)
    size = m.abs(x)
    along = m.real(g * m.conj(out))
    safe = m.where(size == 0.0, 1.0, size)
    return m.where(size == 0.0, m.zeros_like(g), (g - out * along) / safe)


sgn_op = pointwise("sgn", _sign, ring, {"x": _sgn_gradient}, exact_out=True)


@public(inplace=True, out=True)
def square(input: Tensor) -> Tensor:
    """input * input.

    >>> import flambeau as torch
    >>> torch.square(torch.tensor([-2.0, 3.0]))
    tensor([4., 9.])
    """
    if isinstance(input, Tensor) and input.dtype.category == BOOL:
        return ops.pow(input, 2)
    return square_op.call(input)


@public()
def positive(input: Tensor) -> Tensor:
    """The tensor itself."""
    _operand("positive", input)
    if input.dtype.category == BOOL:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


engine.add = add_op.call  # sums of gradients


SCHEMAS = """
add|sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor  # flops=each
add|sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor
add|sub.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)
rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor
mul|div.Tensor(Tensor self, Tensor other) -> Tensor  # flops=each
mul.Scalar(Tensor self, Scalar other) -> Tensor
mul.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)
true_divide|remainder|fmod.Tensor(Tensor self, Tensor other) -> Tensor
true_divide|div|remainder|fmod.Scalar(Tensor self, Scalar other) -> Tensor
true_divide.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)
div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor
div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor
div.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)
div.out_mode(Tensor self, Tensor other, *, str? rounding_mode, Tensor(a!) out) -> Tensor(a!)
remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
floor_divide(Tensor self, Tensor other) -> Tensor
floor_divide.Scalar(Tensor self, Scalar other) -> Tensor
floor_divide_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
floor_divide_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
square(Tensor self) -> Tensor
positive(Tensor(a) self) -> Tensor(a)
reciprocal  # autocast=cuda:single, onnx
rsqrt  # autocast=cuda:single
add_scaled  # record=add
sub_scaled  # record=sub
sqrt|abs|neg|sign  # onnx
mul_number  # record=mul
div_number  # record=div
"""
