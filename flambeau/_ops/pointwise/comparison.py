"""Comparisons, tests of values, and logic on truth values and bits."""

from __future__ import annotations

import math
from typing import Any

from ..._core.dtypes import BOOL, FLOATING, INTEGER, bool_, default
from ..._core.state import DISPATCH, modes
from ..._kernel.render.value import BITS, is_float
from ..._tensor import Tensor
from ..making.factory import float_of
from ..records.declare import pointwise
from ..records.pointwise_call import slow
from ..records.rules import Refusing, Rule, comparison, equality, integral, ordering
from ..registry import expose, functions, methods, ops, public

# -- comparisons -------------------------------------------------------------------------------------------------

eq_op = pointwise("eq", lambda m, x, y: x == y, equality, numbers="right", in_place_name="EqBackward")
ne_op = pointwise(
    "ne", lambda m, x, y: x != y, equality, aliases=("not_equal",), numbers="right", in_place_name="NeBackward"
)
lt_op = pointwise("lt", lambda m, x, y: x < y, ordering, aliases=("less",), numbers="right", in_place_name="LtBackward")
le_op = pointwise(
    "le", lambda m, x, y: x <= y, ordering, aliases=("less_equal",), numbers="right", in_place_name="LeBackward"
)
gt_op = pointwise(
    "gt", lambda m, x, y: x > y, ordering, aliases=("greater",), numbers="right", in_place_name="GtBackward"
)
ge_op = pointwise(
    "ge", lambda m, x, y: x >= y, ordering, aliases=("greater_equal",), numbers="right", in_place_name="GeBackward"
)

# -- tests -------------------------------------------------------------------------------------------------------

_not_complex = Refusing("c", "complex tensors are not supported", "bif", result=bool_)


def _is_infinity(value: float) -> Any:
    return lambda m, x: x == value if is_float(x.type) else x.r.constant("b1", False)


isnan_op = pointwise("isnan", lambda m, x: m.isnan(x), equality, inplace=False, out=False)
isinf_op = pointwise("isinf", lambda m, x: m.isinf(x), comparison, inplace=False, out=False)
isfinite_op = pointwise("isfinite", lambda m, x: m.isfinite(x), comparison, inplace=False, out=False)
isposinf_op = pointwise("isposinf", _is_infinity(math.inf), _not_complex, inplace=False, exact_out=True)
isneginf_op = pointwise("isneginf", _is_infinity(-math.inf), _not_complex, inplace=False, exact_out=True)
isreal_op = pointwise(
    "isreal", lambda m, x: m.imag(x) == 0.0 if m.is_complex(x) else x.r.constant("b1", True), comparison,
    inplace=False, out=False,
)  # fmt: skip


signbit_op = pointwise("signbit", lambda m, x: m.signbit(x), ordering, inplace=False, exact_out=True)

# -- logic -------------------------------------------------------------------------------------------------------


def _truth(m: Any, x: Any) -> Any:
    return m.cast(x, "b1")


logical_and_op = pointwise("logical_and", lambda m, x, y: _truth(m, x) & _truth(m, y), comparison, numbers="none")
logical_or_op = pointwise("logical_or", lambda m, x, y: _truth(m, x) | _truth(m, y), comparison, numbers="none")
logical_xor_op = pointwise("logical_xor", lambda m, x, y: _truth(m, x) ^ _truth(m, y), comparison, numbers="none")
logical_not_op = pointwise("logical_not", lambda m, x: ~_truth(m, x), comparison)

bitwise_and_op = pointwise("bitwise_and", lambda m, x, y: x & y, integral)
bitwise_or_op = pointwise("bitwise_or", lambda m, x, y: x | y, integral)
bitwise_xor_op = pointwise("bitwise_xor", lambda m, x, y: x ^ y, integral)
bitwise_not_op = pointwise("bitwise_not", lambda m, x: ~x, integral, exact_out=True)


def invert(input: Tensor) -> Tensor:
    if input.dtype.category > INTEGER:
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return bitwise_not_op.call(input)


expose("invert", invert, None, None)


def _outside(m: Any, x: Any, y: Any) -> Any:
    """Whether a shift is by a negative count or by more than there are bits."""
    wide = y >= BITS[x.type]
    return wide | (y < 0) if y.type[0] == "i" else wide


def _left_shift(m: Any, x: Any, y: Any) -> Any:
    outside = _outside(m, x, y)
    return m.where(outside, 0, x << m.where(outside, 0, y))


def _right_shift(m: Any, x: Any, y: Any) -> Any:
    return (
        x >> m.where(_outside(m, x, y), BITS[x.type] - 1, y)
        if x.type[0] == "i"
        else m.where(_outside(m, x, y), 0, x >> m.where(_outside(m, x, y), 0, y))
    )


bitwise_left_shift_op = pointwise("bitwise_left_shift", _left_shift, Rule("i"))
bitwise_right_shift_op = pointwise("bitwise_right_shift", _right_shift, Rule("i"))
for _name in ("and", "or", "xor"):
    methods[f"__{_name}__"] = methods[f"__r{_name}__"] = getattr(ops, f"bitwise_{_name}")
    functions[f"__{_name}__"] = getattr(ops, f"bitwise_{_name}")
    methods[f"__i{_name}__"] = getattr(ops, f"bitwise_{_name}_")

# -- closeness ---------------------------------------------------------------------------------------------------


def _distance_within(m: Any, x: Any, y: Any, rtol: Any, atol: Any) -> Any:
    bound = m.real(atol) + m.real_abs(m.real(rtol)) * m.abs(y)
    return (x == y) | (m.isfinite(x) & m.isfinite(y) & (m.abs(x - y) <= bound))


_close_op = pointwise(
    "is_within", _distance_within, Rule("fc", result=bool_, short_complex=True), params=("rtol", "atol"), public=False
)


@public(out=False)
def isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Where |input - other| <= atol + rtol * |other|.

    >>> import flambeau as torch
    >>> torch.isclose(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.1]))
    tensor([ True, False])
    """
    for t in (input, other):
        if not isinstance(t, Tensor):
            raise TypeError(f"isclose(): arguments must be Tensors, not {type(t).__name__}")
    if input.dtype is not other.dtype:
        raise RuntimeError(f"{input.dtype} did not match {other.dtype}")
    rtol, atol = float_of(rtol, "isclose", "rtol"), float_of(atol, "isclose", "atol")
    if rtol < 0:
        raise RuntimeError(f"rtol must be greater than or equal to zero, but got {rtol}")
    if atol < 0:
        raise RuntimeError(f"atol must be greater than or equal to zero, but got {atol}")
    if input.dtype.category < FLOATING:
        if (rtol == 0 and atol == 0) or input.dtype.category == BOOL:
            if input.dtype.category == BOOL and (rtol >= 1 or atol >= 1):
                return slow(
                    _close_op, (ops.to_dtype(input, default.float), ops.to_dtype(other, default.float), rtol, atol)
                )
            return eq_op.call(input, other)
        other = ops.to_dtype(other, default.float)  # differences of integers would wrap around
        bound = ops.add(ops.abs(ops.mul(other, rtol)), atol)
        return ops.bitwise_or(eq_op.call(input, other), le_op.call(ops.abs(ops.sub(input, other)), bound))
    if rtol == 0 and atol == 0:
        close = eq_op.call(input, other)
    else:
        close = slow(_close_op, (input, other, rtol, atol))
    if equal_nan:
        close = close | (ne_op.call(input, input) & ne_op.call(other, other))
    return close


@public(out=False)
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are close, see isclose.

    >>> import flambeau as torch
    >>> torch.allclose(torch.tensor([1.0]), torch.tensor([1.0 + 1e-7]))
    True
    """
    close = isclose(input, other, rtol, atol, equal_nan)
    return bool(close.all() if (close._k | modes.on) & DISPATCH else close._array.all())


@public(out=False)
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape and elements.

    >>> import flambeau as torch
    >>> torch.equal(torch.tensor([1, 2]), torch.tensor([1, 2]))
    True
    """
    if (input._k ^ other._k) & 6 and not (input._k | other._k) & DISPATCH:
        raise RuntimeError("equal(): Expected all tensors to be on the same device")
    if input._array.shape != other._array.shape:
        return False
    same = eq_op.call(input, other)
    return bool(same.all() if (same._k | modes.on) & DISPATCH else same._array.all())


SCHEMAS = """
eq|ne|lt|le|gt|ge|bitwise_and|bitwise_or|bitwise_xor|bitwise_left_shift|bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor
eq|ne|lt|le|gt|ge|bitwise_and|bitwise_or|bitwise_xor.Scalar(Tensor self, Scalar other) -> Tensor
logical_and|logical_or|logical_xor(Tensor self, Tensor other) -> Tensor
bitwise_and|bitwise_or|bitwise_xor.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
bitwise_left_shift|bitwise_right_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor
bitwise_left_shift|bitwise_right_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
isclose(Tensor self, Tensor other, float rtol=1.0000000000000001e-05, float atol=1e-08, bool equal_nan=False) -> Tensor
allclose(Tensor self, Tensor other, float rtol=1.0000000000000001e-05, float atol=1e-08, bool equal_nan=False) -> bool
equal(Tensor self, Tensor other) -> bool
isnan  # onnx=IsNaN
isinf  # onnx=IsInf
logical_not  # onnx=Not
"""
