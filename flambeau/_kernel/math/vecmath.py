"""All elementary functions of kernel values by name: small ones here, the others from their modules.

Bodies are free of branches, so that LLVM turns loops around them into vector code. Importing this
module makes them methods of the domain `m`.
"""

from __future__ import annotations

import math
from typing import Any

from ..render.symbols import register
from ..render.value import Value, is_float
from . import complexmath, errorfunctions, exponentials, gammafunctions, trigonometry
from .floats import FORMAT, power_of_two

INF, NAN = math.inf, math.nan


# -- signs and tests ---------------------------------------------------------------------------


def absolute(m: Any, x: Value) -> Value:
    return m.real_abs(x)


def sign(m: Any, x: Value) -> Value:
    """-1, 0 or 1; 0 for NaN."""
    if x.type[0] in "ub":
        return m.cast(x != 0, x.type)
    return m.where(x > 0, m.constant(1, x), m.where(x < 0, m.constant(-1, x), 0))


def signbit(m: Any, x: Value) -> Value:
    if is_float(x.type):
        return m.bits(x) < 0
    return x < 0 if x.type[0] == "i" else x.r.constant("b1", False)


def isfinite(m: Any, x: Value) -> Value:
    return m.real_abs(x) < INF if is_float(x.type) else x.r.constant("b1", True)


def isinf(m: Any, x: Value) -> Value:
    return m.real_abs(x) == INF if is_float(x.type) else x.r.constant("b1", False)


# -- roots and quotients -----------------------------------------------------------------------


def reciprocal(m: Any, x: Value) -> Value:
    return 1.0 / x


def sqrt(m: Any, x: Value) -> Value:
    return m.real_sqrt(x)


def rsqrt(m: Any, x: Value) -> Value:
    return 1.0 / m.real_sqrt(x)


def hypot(m: Any, x: Value, y: Value) -> Value:
    """sqrt(x^2 + y^2), scaled by a power of two so that the squares stay in range."""
    form = FORMAT[x.type]
    a, b = m.real_abs(x), m.real_abs(y)
    larger, smaller = m.where(a > b, a, b), m.where(a > b, b, a)
    exponent = (m.bits(larger) >> form.mantissa) - form.bias
    half = m.minimum(m.maximum(exponent, 2 - form.bias), form.bias - 1)
    up, down = power_of_two(m, half), power_of_two(m, -half)
    p, q = larger * down, smaller * down
    result = up * m.real_sqrt(m.fma(p, p, q * q))
    return m.where((a == INF) | (b == INF), INF, result)


# -- bits --------------------------------------------------------------------------------------


def nextafter(m: Any, x: Value, y: Value) -> Value:
    bits = m.bits(x)
    away = (y > x) == (x > 0.0)
    step = m.where(away, m.constant(1, bits), m.constant(-1, bits))
    tiny = m.copysign(m.from_bits(m.constant(1, bits)), y)
    moved = m.where(x == 0.0, tiny, m.from_bits(bits + step))
    return m.where(x == y, y, m.where((x != x) | (y != y), NAN, moved))


def _frexp(m: Any, x: Value) -> tuple[Value, Value]:
    form = FORMAT[x.type]
    tiny = m.real_abs(x) < form.smallest
    shift = form.mantissa + 2
    bits = m.bits(m.where(tiny, x * 2.0**shift, x))
    exponent = ((bits >> form.mantissa) & (2 * form.bias + 1)) - (form.bias - 1)
    exponent = m.where(tiny, exponent - shift, exponent)
    field = (2 * form.bias + 1) << form.mantissa
    mantissa = m.from_bits((bits & ~field) | ((form.bias - 1) << form.mantissa))
    regular = (m.real_abs(x) < INF) & (x != 0.0)
    return m.where(regular, mantissa, x), m.where(regular, exponent, 0)


def frexp_mantissa(m: Any, x: Value) -> Value:
    return _frexp(m, x)[0]


def frexp_exponent(m: Any, x: Value) -> Value:
    return m.cast(_frexp(m, x)[1], "i32")


REAL: dict[str, Any] = {
    **exponentials.REAL, **trigonometry.REAL, **errorfunctions.REAL, **gammafunctions.REAL,
    "abs": absolute, "sign": sign, "sgn": sign, "signbit": signbit, "isfinite": isfinite, "isinf": isinf,
    "reciprocal": reciprocal, "sqrt": sqrt, "rsqrt": rsqrt, "hypot": hypot,
    "nextafter": nextafter, "frexp_mantissa": frexp_mantissa,
    "frexp_exponent": frexp_exponent,
}  # fmt: skip
COMPLEX = complexmath.COMPLEX
register(REAL, COMPLEX)
