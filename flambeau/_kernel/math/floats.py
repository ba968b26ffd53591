"""Tools for the math modules: polynomials, powers of two from bits, sums and products of two words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..render.value import Value


class Format(NamedTuple):
    """What the algorithms need to know of a float type."""

    mantissa: int  # stored bits
    bias: int
    integer: str
    magic: float  # adding it rounds to an integer, which then stands in the low bits
    smallest: float  # normal number

    @property
    def magic_bits(self) -> int:
        return ((self.bias + self.mantissa) << self.mantissa) | (1 << (self.mantissa - 1))


FORMAT = {
    "f32": Format(23, 127, "i32", 1.5 * 2.0**23, 2.0**-126),
    "f64": Format(52, 1023, "i64", 1.5 * 2.0**52, 2.0**-1022),
}


def polynomial(m: Any, x: Value, coefficients: Sequence[float]) -> Value:
    """Horner's rule, lowest coefficient first."""
    total = m.constant(coefficients[-1], x)
    for c in coefficients[-2::-1]:
        total = m.fma(total, x, c)
    return total


def nearest(m: Any, x: Value, factor: float) -> tuple[Value, Value]:
    """The integer nearest to x * factor, as float and in the low bits of an integer; for moderate sizes only.

    The high bits of the integer are those of the float that carries it: `low_bits` removes them.
    """
    form = FORMAT[x.type]
    shifted = m.fma(x, factor, form.magic)
    return shifted - form.magic, m.bits(shifted)


def nearest_power(m: Any, x: Value, factor: float) -> tuple[Value, Value]:
    """The integer n nearest to x * factor as float, and 2**n; n within the normal range, or just below it: 2**n is 0 then."""
    form = FORMAT[x.type]
    magic = form.magic + form.bias
    shifted = m.fma(x, factor, magic)
    return shifted - magic, m.from_bits(m.bits(shifted) << form.mantissa)


def low_bits(k: Value) -> Value:
    """The integer that `nearest` found."""
    return k - FORMAT["f32" if k.type == "i32" else "f64"].magic_bits


def power_of_two(m: Any, k: Value) -> Value:
    """2**k for an integer k within the normal range; only the low bits of k count."""
    form = FORMAT["f32" if k.type == "i32" else "f64"]
    return m.from_bits((k + form.bias) << form.mantissa)


def scale(m: Any, x: Value, k: Value) -> Value:
    """x * 2**k where the result may overflow or lose bits at the bottom: twice half the power."""
    half = k >> 1
    return (x * power_of_two(m, half)) * power_of_two(m, k - half)


def clamp(m: Any, x: Value, low: float | None, high: float | None) -> Value:
    """x within bounds; NaN stays."""
    if low is not None:
        x = m.where(m.constant(low, x) > x, low, x)
    if high is not None:
        x = m.where(m.constant(high, x) < x, high, x)
    return x


def quotient(m: Any, a: Value, b: Value, rest: Callable[[Value], Value] | None = None) -> Value:
    """a / b for b from 1 to 2**125, to about 0.7 ulp: in float32 a few products, which vectors do faster than a division.

    The bits of a constant minus those of b are 1/b to 1.5 %, but for a factor; one step of Newton's method with its
    two constants fitted gives 2^-13, and the correction of the product squares that. `rest` gives a - b q for a q near
    the quotient, where that can be had without the rounding of a and b.
    """
    if b.type == "f32":
        guess = m.from_bits(m.constant(0x7EB50000, m.bits(b)) - m.bits(b))
        inverse = guess * m.fma(b * guess, -1.9412877432731213, 2.7867577153556504)
    elif rest is None:
        return a / b
    else:
        inverse = 1.0 / b
    result = a * inverse
    return m.fma(m.fma(-b, result, a) if rest is None else rest(result), inverse, result)


def two_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """a + b and its rounding error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def quick_two_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """As two_sum, where a is zero or the larger."""
    total = a + b
    return total, b - (total - a)


def two_product(m: Any, a: Value, b: Any) -> tuple[Value, Value]:
    product = a * b
    return product, m.fma(a, b, -product)


def flip_sign(m: Any, x: Value, odd: Value) -> Value:
    """-x where the integer `odd` is odd."""
    form = FORMAT[x.type]
    return m.from_bits(m.bits(x) ^ (odd << (form.mantissa + (8 if x.type == "f32" else 11))))
