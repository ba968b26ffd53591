"""Sine, cosine, tangent and their inverses over real kernel values, with exact reduction of any argument."""

from __future__ import annotations

import math
from typing import Any

from ..render.value import Value
from .floats import FORMAT, flip_sign, nearest, polynomial, quick_two_sum, two_product, two_sum

INF, NAN = math.inf, math.nan

# pi/2 in three words; x - n pi/2 loses nothing that matters while |x| stays below the limit
_HALF_PI = {
    "f32": (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    "f64": (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
}
_LIMIT = {"f32": 2.0**17, "f64": 2.0**30}
# 1/(2 pi) after the binary point, behind 32 zero bits
_TURNS = int(
    "0000000028be60db9391054a7f09d5f47d4d377036d8a5664f10e4107f9458eaf7aef1586dc91b8e909374b8"
    "01924bba827464873f877ac72c4a69cfba208d7d4baed1213a671c09ad17df904e64758e60d4ce7d272117e2"
    "ef7e4a0ec7fe25fff7816603fbcbc462d6829b47db4d9fb3c9f2c26dd3d18fd9a797fa8b5d49eeb1faf97c5e"
    "cf41ce7de294a4ba9afed7ec47e357421580cc11",
    16,
)
_TURNS_LENGTH = 1216

# sin(r) = r + r^3 S(r^2), cos(r) = 1 - r^2/2 + r^4 C(r^2), tan(r) = r + r^3 T(r^2) for |r| <= pi/4;
# errors 2^-27, 2^-32, 2^-29 and 2^-57, 2^-63, 2^-55
_SIN = {
    "f32": (-0.166666538, 0.00833209325, -0.000195051456),
    "f64": (
        -0.1666666666666662, 0.008333333333319702, -0.00019841269827607495, 2.7557312921010563e-06,
        -2.5050636517248276e-08, 1.5889708493007703e-10,
    ),
}  # fmt: skip
_COS = {
    "f32": (0.0416666418, -0.00138871302, 2.44120783e-05),
    "f64": (
        0.041666666666666574, -0.0013888888888869719, 2.4801587286729036e-05, -2.755731355799646e-07,
        2.0875615570881908e-09, -1.1354090027944178e-11,
    ),
}  # fmt: skip
_TAN = {
    "f32": (0.333333522, 0.133325711, 0.0540709794, 0.0212226063, 0.0109955538, -0.000118773671, 0.00448156241),
    "f64": (
        0.33333333333332565, 0.13333333333443492, 0.053968253913009336, 0.02186948993322342, 0.008863214640443894,
        0.0035923295102688315, 0.0014545145853474572, 0.0005960798144662511, 0.00021941121527727073,
        0.00014259446719255505, -3.487957777233721e-05, 9.720456276266752e-05, -4.903339067272297e-05,
        2.1856345613977974e-05,
    ),
}  # fmt: skip
# atan(t) = t + t^3 A(t^2) for t from 0 to 1; errors 2^-28 and 2^-56
_ATAN = {
    "f32": (
        -0.333332986, 0.199985296, -0.142640144, 0.109508611, -0.0839920789, 0.0578788705, -0.0310935341,
        0.0108662723, -0.00178214512,
    ),
    "f64": (
        -0.3333333333333307, 0.19999999999951748, -0.14285714282584278, 0.11111111007116774, -0.09090907002026537,
        0.07692279803231847, -0.06666403590892954, 0.05880524146325273, -0.05253498680348801, 0.04722243814231736,
        -0.042189469784956975, 0.03663668056112025, -0.0298948092446077, 0.02197284626369253,
        -0.013888443453006266, 0.0071873697969566785, -0.0028799388700728313, 0.000829467296461608,
        -0.000151738785682919, 1.318080082655746e-05,
    ),
}  # fmt: skip
# asin(t) = t + t^3 A(t^2) for t from 0 to 1/2; errors 2^-31 and 2^-59
_ASIN = {
    "f32": (0.166666597, 0.0750052184, 0.0445133522, 0.0318395235, 0.0143121732, 0.0377021246),
    "f64": (
        0.16666666666666766, 0.07499999999969234, 0.0446428571762168, 0.030381942626153114, 0.022372217404257246,
        0.017351566692639778, 0.013981385054075991, 0.011394130905831917, 0.0108079138869575,
        0.003598817978143927, 0.021976491174464426, -0.02138973032461658, 0.03287895374255039,
    ),
}  # fmt: skip


# -- reduction of the argument -----------------------------------------------------------------


def _turn_bits(start: int) -> int:
    """64 bits of 1/(2 pi) as a signed literal."""
    word = (_TURNS >> (_TURNS_LENGTH - start - 64)) & ((1 << 64) - 1)
    return word - (1 << 64) if word >= 1 << 63 else word


def _choose(m: Any, index: Value, entries: list[int]) -> Value:
    """entries[index] as u64: a tree of selections, since memory tables are slow in vector code."""
    values: list[Any] = [index.r.constant("u64", e) for e in entries]
    bit = 1
    while len(values) > 1:
        odd = (index & bit) != 0
        pairs = [values[k : k + 2] for k in range(0, len(values), 2)]
        values = [m.where(odd, p[1], p[0]) if len(p) == 2 else p[0] for p in pairs]
        bit *= 2
    return values[0]


def _mantissa(m: Any, x: Value, step: int) -> tuple[Value, Value, Value]:
    """|x| = mantissa * 2**e: the mantissa, and (e + 32) as a word index and a shift within the word."""
    form = FORMAT[x.type]
    bits = m.cast(m.bits(m.real_abs(x)), "i64")
    mantissa = (bits & ((1 << form.mantissa) - 1)) | (1 << form.mantissa)
    exponent = m.maximum((bits >> form.mantissa) - (form.bias + form.mantissa - 32), 0)
    return m.cast(mantissa, "u64"), exponent // step, m.cast(exponent & (step - 1), "u64")


def _joined(high: Value, low: Value, shift: Value) -> Value:
    """The 64 bits that start `shift` bits into two words."""
    return (high << shift) | ((low >> 1) >> (shift * -1 + 63))


def _turns_32(m: Any, x: Value) -> Value:
    """The fraction of a turn that |x| is, in units of 2**-64."""
    mantissa, index, shift = _mantissa(m, x, 32)
    high = _choose(m, index, [_turn_bits(32 * k) for k in range(5)])
    low = _choose(m, index, [_turn_bits(32 * k + 64) for k in range(5)])
    return mantissa * _joined(high, low, shift) + ((mantissa * ((low << shift) >> 32)) >> 32)


def _high_product(a: Value, b: Value) -> Value:
    """The upper word of a 64 by 64 bit product."""
    a0, a1, b0, b1 = a & 0xFFFFFFFF, a >> 32, b & 0xFFFFFFFF, b >> 32
    middle = a1 * b0 + ((a0 * b0) >> 32)
    other = a0 * b1 + (middle & 0xFFFFFFFF)
    return a1 * b1 + (middle >> 32) + (other >> 32)


def _turns_64(m: Any, x: Value) -> tuple[Value, Value]:
    """The fraction of a turn that |x| is, in 128 bits."""
    mantissa, index, shift = _mantissa(m, x, 64)
    words = [_choose(m, index, [_turn_bits(64 * (k + j)) for k in range(16)]) for j in range(4)]
    w0, w1, w2 = (_joined(words[j], words[j + 1], shift) for j in range(3))
    product = mantissa * w1
    low = product + _high_product(mantissa, w2)
    carry = m.cast(low < product, "u64")
    return mantissa * w0 + _high_product(mantissa, w1) + carry, low


def _reduce_large(m: Any, x: Value) -> tuple[Value, Value, Value]:
    """As _reduce, for large |x|: by integer arithmetic with as many bits of 1/(2 pi) as that takes."""
    high, low = (_turns_32(m, x), None) if x.type == "f32" else _turns_64(m, x)
    negative = m.cast(x < 0.0, "u64") * -1  # all ones: complement, up to one unit in the last place
    high = high ^ negative
    count = (high + (1 << 61)) >> 62
    if low is None:
        wide = m.cast(m.cast(high << 2, "i64"), "f64") * (0.5 * math.pi * 2.0**-64)
        r = m.cast(wide, "f32")
        return r, m.cast(wide - m.cast(r, "f64"), "f32"), m.cast(count, "i32")
    low = low ^ negative
    high, low = (high << 2) | (low >> 62), low << 2
    first = m.cast(m.cast(high & -2048, "i64"), "f64") * 2.0**-64
    second = m.cast(((high & 2047) << 53) | (low >> 11), "f64") * 2.0**-117
    y, error = quick_two_sum(first, second)
    unit, unit_low, _ = _HALF_PI["f64"]
    return m.fma(y, unit, m.fma(y, unit_low, error * unit)), m.constant(0.0, x), m.cast(count, "i64")


def _reduce(m: Any, x: Value, twice: bool = False) -> tuple[Value, Value, Value]:
    """r, its rounding error (if `twice`; else 0) and k with x = k pi/2 + r, |r| <= pi/4."""
    n, k = nearest(m, x, 2.0 / math.pi)
    first, second, third = _HALF_PI[x.type]
    exact = m.fma(n, -first, x)
    if twice:
        product, error = two_product(m, n, -second)
        r, low = two_sum(exact, product)
        r, low = quick_two_sum(r, m.fma(n, -third, low + error))
    else:
        r, low = m.fma(n, -third, m.fma(n, -second, exact)), m.constant(0.0, x)
    size = m.real_abs(x)
    large = (size >= _LIMIT[x.type]) & (size < INF)
    return m.rare(large, lambda: _reduce_large(m, x), (r, low, k))


# -- functions ---------------------------------------------------------------------------------


def _sin_quadrant(m: Any, r: Value, k: Value) -> Value:
    """sin(r + k pi/2)."""
    z = r * r
    s = m.fma(r * z, polynomial(m, z, _SIN[r.type]), r)
    c = m.fma(z * z, polynomial(m, z, _COS[r.type]), m.fma(z, -0.5, 1.0))
    return flip_sign(m, m.where((k & 1) != 0, c, s), k >> 1)


def sin(m: Any, x: Value) -> Value:
    r, _, k = _reduce(m, x)
    return m.where(x == 0.0, x, _sin_quadrant(m, r, k))


def cos(m: Any, x: Value) -> Value:
    r, _, k = _reduce(m, x)
    return _sin_quadrant(m, r, k + 1)


def tan(m: Any, x: Value) -> Value:
    r, low, k = _reduce(m, x, twice=True)
    z = r * r
    t = m.fma(r * z, polynomial(m, z, _TAN[x.type]), r)
    t = t + m.fma(t * t, low, low)
    return m.where(x == 0.0, x, m.where((k & 1) != 0, -1.0 / t, t))


def sinpi(m: Any, x: Value) -> Value:
    """sin(pi x)."""
    x = m.where(m.real_abs(x) < INF, x, NAN)
    rest = x - m.rint(x * 0.5) * 2.0  # exact, from -1 to 1
    n, k = nearest(m, rest, 2.0)
    rest = m.fma(n, -0.5, rest)
    unit, low, _ = _HALF_PI[x.type]
    return m.where(x == 0.0, x, _sin_quadrant(m, m.fma(rest, 2.0 * unit, rest * (2.0 * low)), k))


def sinc(m: Any, x: Value) -> Value:
    """sin(pi x) / (pi x)."""
    unit, low, _ = _HALF_PI[x.type]
    return m.where(x == 0.0, 1.0, sinpi(m, x) / m.fma(x, 2.0 * unit, x * (2.0 * low)))


def _asin_parts(m: Any, x: Value) -> tuple[Value, Value]:
    """Whether |x| > 1/2, and asin of |x|, or there of sqrt((1 - |x|)/2)."""
    size = m.real_abs(x)
    large = size > 0.5
    z = m.where(large, m.fma(size, -0.5, 0.5), size * size)
    t = m.where(large, m.real_sqrt(z), size)
    return large, m.fma(t * z, polynomial(m, z, _ASIN[x.type]), t)


def asin(m: Any, x: Value) -> Value:
    large, part = _asin_parts(m, x)
    high, low, _ = _HALF_PI[x.type]
    result = m.where(large, high - m.fma(part, 2.0, -low), part)
    return m.copysign(result, x)


def acos(m: Any, x: Value) -> Value:
    large, part = _asin_parts(m, x)
    high, low, _ = _HALF_PI[x.type]
    middle = high - (m.copysign(part, x) - low)
    outer = m.where(x < 0.0, 2.0 * high - 2.0 * (part - low), part + part)
    return m.where(large, outer, middle)


def _atan_unit(m: Any, t: Value) -> Value:
    """atan(t) for t from 0 to 1."""
    z = t * t
    return m.fma(t * z, polynomial(m, z, _ATAN[t.type]), t)


def atan(m: Any, x: Value) -> Value:
    size = m.real_abs(x)
    swap = size > 1.0
    part = _atan_unit(m, m.where(swap, 1.0 / size, size))
    high, low, _ = _HALF_PI[x.type]
    return m.copysign(m.where(swap, high - (part - low), part), x)


def atan2(m: Any, y: Value, x: Value) -> Value:
    a, b = m.real_abs(y), m.real_abs(x)
    swap, left = a > b, m.bits(x) < 0
    larger, smaller = m.where(swap, a, b), m.where(swap, b, a)
    t = m.where(a == b, m.where(a == 0.0, 0.0, m.constant(1.0, x)), smaller / larger)
    part = _atan_unit(m, t)
    high, low, _ = _HALF_PI[x.type]
    zero = m.constant(0.0, x)
    # counted from the nearest axis, whose angle has two words
    axis = m.where(swap, high, m.where(left, 2.0 * high, zero))
    axis_low = m.where(swap, low, m.where(left, 2.0 * low, zero))
    angle = axis + (m.where(swap != left, -part, part) + axis_low)
    return m.where((x != x) | (y != y), NAN, m.copysign(angle, y))


REAL: dict[str, Any] = {
    "sin": sin, "cos": cos, "tan": tan, "sinpi": sinpi, "sinc": sinc, "asin": asin, "acos": acos,
    "atan": atan, "atan2": atan2,
}  # fmt: skip
