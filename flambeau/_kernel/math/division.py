"""Division that rounds, remainders and integer powers over kernel values; no operand makes a kernel trap."""

from __future__ import annotations

import math
from typing import Any

from ..render.symbols import register
from ..render.value import BITS, Value, is_float
from .floats import FORMAT

INF, NAN = math.inf, math.nan
_FEW_BITS = 6  # of usual exponents: more of an integer overflows but for -1, 0 and 1


def _safe(m: Any, x: Value, y: Value) -> tuple[Value, Value]:
    """A divisor that the processor can take, and whether it stands for -1 (whose quotient may not fit)."""
    if x.type[0] != "i":
        return m.where(y == 0, 1, y), y != y
    odd = (y == 0) | (y == -1)
    return m.where(odd, 1, y), y == -1


def _integer(m: Any, x: Value, y: Value) -> tuple[Value, Value]:
    """Quotient towards zero and remainder."""
    divisor, negate = _safe(m, x, y)
    quotient = m.where(negate, -x, x // divisor)
    return quotient, x - quotient * m.where(negate, -1, divisor)


def _near_quotient(m: Any, x: Value, y: Value) -> Value:
    """The remainder for |x / y| below 2**mantissa: exact, as the quotient is right or, rounded up, one too large."""
    rest = m.fma(-m.trunc(x / y), y, x)
    step = m.copysign(m.real_abs(y), x)
    return m.where((rest != 0.0) & ((rest < 0.0) != (x < 0.0)), rest + step, rest)


def fmod(m: Any, x: Value, y: Value) -> Value:
    """The remainder with the sign of x, exactly."""
    if not is_float(x.type):
        return _integer(m, x, y)[1]
    size, unit = m.real_abs(x), m.real_abs(y)
    form = FORMAT[x.type]
    # a zero or subnormal divisor, a huge quotient: by long division
    hard = (size / unit >= 2.0**form.mantissa) | (unit < form.smallest * 2.0**30)
    easy = m.copysign(m.where(size < unit, x, _near_quotient(m, x, y)), x)
    result = m.rare(hard & (size < INF), lambda: x % y, easy)
    return m.where((x != x) | (y != y) | (size == INF), NAN, result)


def remainder(m: Any, x: Value, y: Value) -> Value:
    """The remainder with the sign of y, as Python's %."""
    rest = fmod(m, x, y)
    if x.type[0] == "u":
        return rest
    return m.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


def floor_divide(m: Any, x: Value, y: Value) -> Value:
    if not is_float(x.type):
        quotient, rest = _integer(m, x, y)
        if x.type[0] == "u":
            return quotient
        return m.where((rest != 0) & ((rest < 0) != (y < 0)), quotient - 1, quotient)
    rest = fmod(m, x, y)
    quotient = (x - rest) / y
    quotient = m.where((rest != 0.0) & ((y < 0.0) != (rest < 0.0)), quotient - 1.0, quotient)
    whole = m.floor(quotient)
    whole = m.where(quotient - whole > 0.5, whole + 1.0, whole)
    whole = m.where(quotient == 0.0, m.copysign(m.constant(0.0, x), x / y), whole)
    return m.where(y == 0.0, x / y, whole)


def trunc_divide(m: Any, x: Value, y: Value) -> Value:
    return m.trunc(x / y) if is_float(x.type) else _integer(m, x, y)[0]


def integer_power(m: Any, x: Value, y: Value) -> Value:
    """x**y by squaring; negative exponents give 0 but for x = 1 and -1."""
    bits = BITS[y.type] - (y.type[0] == "i")
    if bits <= 8:
        return _power(m, x, y, bits)
    unusual = (y < 0) | (y >= 1 << _FEW_BITS) if y.type[0] == "i" else y >= 1 << _FEW_BITS
    return m.rare(unusual, lambda: _power(m, x, y, bits), _squared(m, x, y, _FEW_BITS), everywhere=True)


def _power(m: Any, x: Value, y: Value, bits: int) -> Value:
    """From the first bit to the last: LLVM takes long for squares of squares."""
    result = one = m.constant(1, x)
    for bit in reversed(range(bits)):
        result = result * result * m.where((y >> bit) & 1 != 0, x, one)
    if y.type[0] == "u":
        return result
    unit = m.where(x == 1, 1, m.where(x == -1, m.where((y & 1) != 0, m.constant(-1, x), 1), 0))
    return m.where(y < 0, unit, result)


def _squared(m: Any, x: Value, y: Value, bits: int) -> Value:
    """x to the power of the last bits of y."""
    result, square = m.constant(1, x), x
    for bit in range(bits):
        result = m.where((y >> bit) & 1 != 0, result * square, result)
        square = square * square
    return result


register(
    {
        "fmod": fmod, "remainder": remainder, "floor_divide": floor_divide, "div_floor": floor_divide, "div_trunc": trunc_divide,
        "integer_power": integer_power,
    },
    {},
)  # fmt: skip
