"""Arithmetic of three operands, on integers as such, and on the bits of floats."""

from __future__ import annotations

import math
from typing import Any

from ..._core import return_types
from ..._core.dtypes import COMPLEX, FLOATING, int32
from ..._kernel.render.value import Value
from ..._tensor import Tensor
from ..records.batching import broadcast
from ..records.casting import checked_number, overflow
from ..records.declare import pointwise
from ..records.inplace import pointwise_in_place
from ..records.pointwise_op import Pointwise
from ..records.primitive import primitive
from ..records.rules import Refusing, Rule, floating, floating_only, real_floating_only, ring
from ..records.shape_rules import joint
from ..registry import older_forms, ops, public
from .arithmetic import number

# -- three operands ----------------------------------------------------------------------------------------------

addcmul_op = pointwise(
    "addcmul", lambda m, x, a, b, value: x + value * a * b, Rule("ifc", short_complex=True), params=("value",), public=False,
    checked=True,
    grad={
        "x": lambda m, g: g,
        "a": lambda m, g, b, value: g * m.conj(b * value),
        "b": lambda m, g, a, value: g * m.conj(a * value),
    },
)  # fmt: skip
addcdiv_op = pointwise(
    "addcdiv", lambda m, x, a, b, value: x + value * (a / b), floating_only, params=("value",), public=False,
    checked=True,
    grad={
        "x": lambda m, g: g,
        "a": lambda m, g, b, value: g * m.conj(value / b),
        "b": lambda m, g, a, b, value: -g * m.conj(value * a / (b * b)),
    },
)  # fmt: skip


def _check_terms(name: str, *terms: Any) -> None:
    for t in terms:
        if not isinstance(t, Tensor):
            raise TypeError(f"{name}(): its operands must be Tensors, not {type(t).__name__}")


def _factor(value: Any, *terms: Tensor) -> Any:
    """The factor; a complex number beside real operands must be real."""
    value = number(value)
    if isinstance(value, complex) and all(t.dtype.category < COMPLEX for t in terms):
        return checked_number(value, terms[0].dtype.wide)
    return value


def _check_quotient(a: Tensor, b: Tensor) -> None:
    if a.dtype.category < FLOATING and b.dtype.category < FLOATING:
        raise RuntimeError("Integer division with addcdiv is no longer supported; convert an operand to floating point")


def _factor_first(args: tuple[Any, ...]) -> Any:
    """(input, value, tensor1, tensor2), the older order."""
    return ((args[0], *args[2:]), {"value": args[1]}) if len(args) == 4 else None


def _ordered(first: Any, second: Any, third: Any) -> tuple[Any, Any, Any]:
    """(tensor1, tensor2, value), as modes are asked with what the record is given; or in the older order."""
    return (first, second, third) if isinstance(first, Tensor) else (second, third, first)


older_forms["addcmul"] = older_forms["addcdiv"] = _factor_first


def _addcmul_(input: Tensor, tensor1: Tensor, tensor2: Tensor, *more: Any, value: Any = 1) -> Tensor:
    if more:
        tensor1, tensor2, value = _ordered(tensor1, tensor2, *more)
    _check_terms("addcmul_", input, tensor1, tensor2)
    return pointwise_in_place(addcmul_op, input, tensor1, tensor2, _factor(value, input, tensor1, tensor2))


@public(out=True, inplace=_addcmul_)
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    """input + value * tensor1 * tensor2.

    >>> import flambeau as torch
    >>> torch.addcmul(torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([3.0]), value=0.5)
    tensor([4.])
    """
    _check_terms("addcmul", input, tensor1, tensor2)
    return addcmul_op.call(input, tensor1, tensor2, _factor(value, input, tensor1, tensor2))


def _addcdiv_(input: Tensor, tensor1: Tensor, tensor2: Tensor, *more: Any, value: Any = 1) -> Tensor:
    if more:
        tensor1, tensor2, value = _ordered(tensor1, tensor2, *more)
    _check_terms("addcdiv_", input, tensor1, tensor2)
    _check_quotient(tensor1, tensor2)
    return pointwise_in_place(addcdiv_op, input, tensor1, tensor2, _factor(value, input, tensor1, tensor2))


@public(out=True, inplace=_addcdiv_)
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    """input + value * tensor1 / tensor2."""
    _check_terms("addcdiv", input, tensor1, tensor2)
    _check_quotient(tensor1, tensor2)
    return addcdiv_op.call(input, tensor1, tensor2, _factor(value, input, tensor1, tensor2))


def _lerp(m: Any, x: Any, end: Any, weight: Any) -> Any:
    """From the nearer end, so that both ends are exact."""
    near = m.abs(weight) < 0.5
    step = end - x
    return m.where(near, x + weight * step, end - step * (1.0 - weight))


lerp_op = pointwise(
    "lerp", _lerp, floating_only, public=False, backward_name="LerpBackward1",
    grad={
        "x": lambda m, g, weight: g * m.conj(1.0 - weight),
        "end": lambda m, g, weight: g * m.conj(weight),
        "weight": lambda m, g, x, end: g * m.conj(end - x),
    },
)  # fmt: skip
lerp_number_op = pointwise(
    "lerp_number", _lerp, floating_only, public=False, params=("weight",), checked=True, backward_name="LerpBackward0",
    grad={
        "x": lambda m, g, weight: g * m.conj(1.0 - weight),
        "end": lambda m, g, weight: g * m.conj(weight),
    },
)  # fmt: skip


def _lerp_record(input: Tensor, end: Tensor, weight: Any) -> Pointwise:
    _check_terms("lerp", input, end)
    if end.dtype is not input.dtype:
        raise RuntimeError(f"expected dtype {input.dtype} for `end` but got dtype {end.dtype}")
    if not isinstance(weight, Tensor):
        if isinstance(weight, complex) and input.dtype.category != COMPLEX:
            raise overflow(input.dtype.wide)
        return lerp_number_op
    if weight.dtype is not input.dtype and weight._array.ndim:
        raise RuntimeError(f"expected dtype {input.dtype} for `weight` but got dtype {weight.dtype}")
    return lerp_op


@public(
    out=True,
    inplace=lambda input, end, weight: pointwise_in_place(_lerp_record(input, end, weight), input, end, weight),
)
def lerp(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    """input + weight * (end - input); the weight is a number or a tensor.

    >>> import flambeau as torch
    >>> torch.lerp(torch.tensor([0.0]), torch.tensor([10.0]), 0.25)
    tensor([2.5000])
    """
    return _lerp_record(input, end, weight).call(input, end, weight)


# -- integers ----------------------------------------------------------------------------------------------------


def _gcd(m: Any, x: Value, y: Value) -> Value:
    """Euclid's algorithm; it ends within 93 steps for 64-bit integers."""
    a, b = m.real_abs(x), m.real_abs(y)
    return m.repeat(200, (a, b), lambda i, a, b: (b, m.fmod(a, m.where(b == 0, 1, b))), going=lambda a, b: b != 0)[0]


def _lcm(m: Any, x: Value, y: Value) -> Value:
    divisor = _gcd(m, x, y)
    quotient = m.div_trunc(x, divisor)  # which takes the least integer by -1 too
    if x.type in ("i8", "i16"):  # as C computes: the product of short integers is an int
        product = m.cast(m.real_abs(m.cast(quotient, "i32") * m.cast(y, "i32")), x.type)
    else:
        product = m.real_abs(quotient * y)
    return m.where(divisor == 0, 0, product)


gcd_op = pointwise("gcd", _gcd, Rule("i"), numbers="none")
lcm_op = pointwise("lcm", _lcm, Rule("i"), numbers="none")

# -- bits of floats ----------------------------------------------------------------------------------------------

_moved: dict[str, Any] = {
    "x": lambda m, g, x, y: m.where(x == y, m.zeros_like(g), g),
    "y": lambda m, g: m.zeros_like(g),
}
nextafter_op = pointwise(
    "nextafter", lambda m, x, y: m.nextafter(x, y), real_floating_only, _moved, public=False, numbers="none"
)


@primitive(
    meta=lambda x, y: joint(None, x, y),
    tensors=2,
    name="nextafter_half",
    grad={
        "x": lambda g, x, y, x_shape: ops.sum_to(ops.where(x == y, ops.zeros_like(g), g), x_shape),
        "y": lambda g, y_shape: ops.sum_to(ops.zeros_like(g), y_shape),
    },
    batch=broadcast,
)
def _nextafter_half(backend: Any, x: Any, y: Any) -> Any:
    """Neighbours of 16-bit floats, found among their bits (ordered as sign and magnitude)."""
    xp = backend.xp
    x, y = xp.broadcast_arrays(x, y)
    bits = xp.array(x).view("int16")
    up = bits + xp.where((y > x) == (x > 0), 1, -1).astype("int16")
    tiny = xp.where(y > 0, 1, -0x7FFF).astype("int16")
    moved = xp.where(x == 0, tiny, up).view(x.dtype)
    return xp.where(x == y, y, xp.where((x != x) | (y != y), x + y, moved)).astype(x.dtype, copy=False)


@public(out=True, inplace=True)
def nextafter(input: Tensor, other: Tensor) -> Tensor:
    """The next number after `input` in the direction of `other`."""
    _check_terms("nextafter", input, other)
    if input.dtype is other.dtype and input.dtype.itemsize == 2 and input.dtype.is_floating_point:
        return _nextafter_half(input, other)
    return nextafter_op.call(input, other)


frexp_op = Pointwise(
    "frexp", lambda m, x: (m.frexp_mantissa(x), m.frexp_exponent(x)),
    Refusing("bic", "torch.frexp() only supports floating-point dtypes", "f"), outputs=2,
    result_of=lambda d: (d, int32),
    grad={"x": lambda m, g, x, out: m.where(x == 0.0, g, g * (out / x))},
)  # fmt: skip


@public(out=True)
def frexp(input: Tensor) -> Any:
    """Mantissa in [1/2, 1) and exponent: input = mantissa * 2**exponent.

    >>> import flambeau as torch
    >>> torch.frexp(torch.tensor([8.0])).exponent
    tensor([4], dtype=torch.int32)
    """
    return return_types.frexp(*frexp_op.call(input))


ldexp_op = pointwise(
    "ldexp", lambda m, x, y: x * m.exp2(y), floating, numbers="none", stepwise=True,
    short=lambda m, cut, x, y: x * cut(m.exp2(y)),
    grad={"x": lambda m, g, y: g * m.conj(m.exp2(y)), "y": lambda m, g, out: g * m.conj(out) * math.log(2.0)},
)  # fmt: skip
hypot_op = pointwise(
    "hypot", lambda m, x, y: m.hypot(x, y), real_floating_only, numbers="none", stepwise=True,
    grad={"x": lambda m, g, x, out: g * x / out, "y": lambda m, g, y, out: g * y / out},
)  # fmt: skip

# -- parts of complex numbers ------------------------------------------------------------------------------------

conj_physical_op = pointwise(
    "conj_physical", lambda m, x: m.conj(x), ring, {"x": lambda m, g: m.conj(g)}, public=False, exact_out=True
)


@public(out=True, inplace=True)
def conj_physical(input: Tensor) -> Tensor:
    """The complex conjugate, computed at once."""
    return conj_physical_op.call(input) if input.dtype.category == COMPLEX else input


def _angle(m: Any, x: Any) -> Any:
    if m.is_complex(x):
        return m.atan2(x.im, x.re)
    return m.where(x != x, x, m.where(x < 0.0, 3.141592653589793, m.zeros_like(x)))


def _angle_gradient(m: Any, g: Any, x: Any) -> Any:
    if not m.is_complex(x):
        return m.zeros_like(g)
    size = m.abs(x)
    square = size * size
    return m.where(
        size == 0.0, m.zeros_like(x), m.real(g) * (x * 1j) / m.where(size == 0.0, m.ones_like(square), square)
    )


angle_op = pointwise("angle", _angle, Rule(to_float=True, result="real"), {"x": _angle_gradient}, inplace=False)


SCHEMAS = """
addcmul|addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor  # autocast=cuda:widest
lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor
lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor
gcd|lcm|nextafter|hypot(Tensor self, Tensor other) -> Tensor
frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)
frexp.Tensor_out(Tensor self, *, Tensor(a!) mantissa, Tensor(b!) exponent) -> (Tensor(a!) mantissa, Tensor(b!) exponent)
ldexp.Tensor(Tensor self, Tensor other) -> Tensor
ldexp.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)
conj_physical(Tensor self) -> Tensor
lerp_number  # record=lerp
"""
