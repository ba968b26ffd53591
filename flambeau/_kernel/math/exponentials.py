"""Exponentials, logarithms, hyperbolic functions and powers over real kernel values.

The polynomials are minimax fits; the comment beside each says what it stands for and its relative error.
"""

from __future__ import annotations

import math
from typing import Any

from ..render.value import SIZE, Value
from .floats import (
    FORMAT,
    clamp,
    low_bits,
    nearest,
    nearest_power,
    polynomial,
    power_of_two,
    quick_two_sum,
    quotient,
    scale,
    two_product,
    two_sum,
)

INF, NAN = math.inf, math.nan

# ln 2 in two words: x - n*high is exact with a fused multiply-add
_LN2 = {"f32": (0.6931471824645996, -1.9046542121259336e-09), "f64": (0.6931471805599453, 2.3190468138462996e-17)}
# ln 2 in two words, the first with trailing zeros: k*high is exact
_LN2_SHORT = {"f32": (0.693145751953125, 1.4286068203094173e-06), "f64": (0.6931471805598903, 5.497923018708371e-14)}
_LOG2_E = math.log2(math.e)

# exp(r) = 1 + r + r^2 P(r), |r| <= ln(2)/2; errors 2^-28 and 2^-63
_EXP = {
    "f32": (0.5, 0.166665152, 0.0416665748, 0.00836927164, 0.00139240827),
    "f64": (
        0.5, 0.16666666666666685, 0.04166666666666667, 0.008333333333315757, 0.001388888888888171,
        0.00019841269899404943, 2.480158733313795e-05, 2.7557231995383383e-06, 2.7557265440663714e-07,
        2.5112989512657292e-08, 2.091737306586017e-09,
    ),
}  # fmt: skip
# cosh(r) = 1 + r^2 C(r^2) and sinh(r) = r + r^3 S(r^2) on the same interval; errors 2^-33, 2^-58
_COSH = {
    "f32": (0.5, 0.0416664593, 0.00139354379),
    "f64": (
        0.5, 0.041666666666666685, 0.0013888888888873283, 2.4801587349202168e-05, 2.7557251821794767e-07,
        2.0921767933814284e-09,
    ),
}  # fmt: skip
_SINH = {
    "f32": (0.166666672, 0.00833317544, 0.00019974068),
    "f64": (
        0.16666666666666677, 0.008333333333321386, 0.00019841269886814526, 2.7557243455789943e-06,
        2.510931853327622e-08,
    ),
}  # fmt: skip
# tanh(r) = r + r^3 T(r^2), |r| <= ln(2)/4; errors 2^-32 and 2^-57
_TANH = {
    "f32": (-0.33333322405815125, 0.1333114206790924, -0.05271529406309128),
    "f64": (
        -0.33333333333332327, 0.13333333332702715, -0.0539682526494762, 0.02186936135400822, -0.008857011253879395,
        0.0034413447167330282,
    ),
}  # fmt: skip
# float32: log(1+f) = f + f^2 L(f) for 1+f from sqrt(1/2) to sqrt(2); error 2^-29
_LOG32 = (
    -0.5, 0.333333105, -0.249999866, 0.200022444, -0.166692883, 0.142178848, -0.123821482, 0.118800946,
    -0.118092947, 0.0691413507,
)  # fmt: skip
# float64: log(1+f) = 2s + s^3 L(s^2) with s = f/(2+f); error 2^-58
_LOG64 = (
    0.6666666666666734, 0.3999999999941642, 0.2857142874211051, 0.22222198594005124, 0.18183563537958605,
    0.15314064756184492, 0.14795857118491043,
)  # fmt: skip


# -- exponentials ------------------------------------------------------------------------------


def _reduce(m: Any, x: Value, low: Value | None = None) -> tuple[Value, Value]:
    """r and k (as `nearest` gives it) with x + low = k ln 2 + r."""
    high_part, low_part = _LN2[x.type]
    n, k = nearest(m, x, _LOG2_E)
    r = m.fma(n, -high_part, x)
    if low is not None:
        r = r + low
    return m.fma(n, -low_part, r), k


def _exp_tail(m: Any, r: Value) -> Value:
    """exp(r) - 1 for the reduced argument."""
    return m.fma(r * r, polynomial(m, r, _EXP[r.type]), r)


def exp(m: Any, x: Value, low: Value | None = None) -> Value:
    def anywhere() -> Value:
        r, k = _reduce(m, clamp(m, x, *((-104.0, 89.0) if x.type == "f32" else (-746.0, 710.0))), low)
        return scale(
            m, polynomial(m, r, (1.0, 1.0, *_EXP[x.type])), k
        )  # the bits of `exp_moderate` where that would do

    extreme = ~(m.real_abs(x) < (87.0 if x.type == "f32" else 708.0))
    return m.rare(extreme, anywhere, exp_moderate(m, x, low), everywhere=True)


def exp_moderate(m: Any, x: Value, low: Value | None = None) -> Value:
    """exp(x) where it is known to be a normal number."""
    r, k = _reduce(m, x, low)
    return m.from_bits(m.bits(polynomial(m, r, (1.0, 1.0, *_EXP[x.type]))) + (k << FORMAT[x.type].mantissa))


def decay(m: Any, x: Value) -> Value:
    """exp(x) for x <= 0, with zero for what would not be a normal number."""
    x = clamp(m, x, -88.0 if x.type == "f32" else -709.0, None)
    n, power = nearest_power(m, x, _LOG2_E)
    high, low = _LN2[x.type]
    r = m.fma(n, -high, x)
    if x.type == "f64":  # in float32 it is less than the rounding of the difference that x always is
        r = m.fma(n, -low, r)
    return polynomial(m, r, (1.0, 1.0, *_EXP[x.type])) * power


def exp2(m: Any, x: Value) -> Value:
    x = clamp(m, x, *((-151.0, 129.0) if x.type == "f32" else (-1076.0, 1025.0)))
    n, k = nearest(m, x, 1.0)
    f = x - n
    high, low = _LN2[x.type]
    return scale(m, _exp_tail(m, m.fma(f, high, f * low)) + 1.0, k)


def expm1(m: Any, x: Value) -> Value:
    small, bottom, top = (2.0**-25, -18.0, 89.0) if x.type == "f32" else (2.0**-54, -39.0, 710.0)
    bounded = clamp(m, x, bottom, top)
    r, k = _reduce(m, bounded)
    double = low_bits(k) > FORMAT[x.type].bias  # 2**k itself would overflow
    power = power_of_two(m, m.where(double, k - 1, k))
    result = m.fma(power, _exp_tail(m, r), power - m.where(double, 0.0, m.constant(1.0, x)))
    result = m.where(double, result + result, result)
    return m.where(m.real_abs(x) < small, x, result)


def sigmoid(m: Any, x: Value) -> Value:
    one = m.constant(1.0, x)

    def anywhere() -> Value:
        e = exp(m, -m.real_abs(x))
        return quotient(m, m.where(x < 0.0, e, one), e + 1.0)

    if x.type == "f64":
        return anywhere()
    e = exp_moderate(m, -x)
    moderate = quotient(m, one, e + 1.0, lambda q: m.fma(-e, q, 1.0 - q))
    return m.rare(~(m.real_abs(x) < 86.0), anywhere, moderate)  # elsewhere its last bit may differ


def _hyperbolic(m: Any, x: Value) -> tuple[Value, Value]:
    """sinh and cosh of x >= 0, both divided by two."""
    x = clamp(m, x, None, 89.6 if x.type == "f32" else 710.6)
    r, k = _reduce(m, x)
    k = low_bits(k)
    square = r * r
    c = square * polynomial(m, square, _COSH[x.type])
    s = m.fma(r * square, polynomial(m, square, _SINH[x.type]), r)
    up = power_of_two(m, k - 2)
    down = power_of_two(m, -m.minimum(k, 100) - 2)
    plus, minus = up + down, up - down
    return minus + m.fma(minus, c, plus * s), plus + m.fma(plus, c, minus * s)


def sinh(m: Any, x: Value) -> Value:
    half, _ = _hyperbolic(m, m.real_abs(x))
    tiny = m.real_abs(x) < (2.0**-13 if x.type == "f32" else 2.0**-27)
    return m.where(tiny, x, m.copysign(half + half, x))


def cosh(m: Any, x: Value) -> Value:
    _, half = _hyperbolic(m, m.real_abs(x))
    return half + half


def tanh(m: Any, x: Value) -> Value:
    """By addition of arguments: |x| = n ln(2)/2 + r, and tanh(n ln(2)/2) = (2**n - 1) / (2**n + 1)."""
    size = clamp(m, m.real_abs(x), None, 9.25 if x.type == "f32" else 19.5)
    high, low = _LN2[x.type]
    n, power = nearest_power(m, size, 2.0 * _LOG2_E)
    r = m.fma(n, -0.5 * high, size)
    if x.type == "f64":  # in float32 the second word has no weight
        r = m.fma(n, -0.5 * low, r)
    z = r * r
    t = m.fma(r * z, polynomial(m, z, _TANH[x.type]), r)
    plus, minus = power + 1.0, power - 1.0

    def rest(q: Value) -> Value:
        return m.fma(t, m.fma(-minus, q, plus), m.fma(-plus, q, minus))

    return m.copysign(quotient(m, m.fma(plus, t, minus), m.fma(minus, t, plus), rest), x)


# -- logarithms --------------------------------------------------------------------------------


_ROOT_HALF = {"f32": 0x3F3504F3, "f64": 0x3FE6A09E667F3BCD}  # bits of sqrt(1/2)


def _split(m: Any, x: Value) -> tuple[Value, Value]:
    """k and z with x = z 2**k, z from sqrt(1/2) to sqrt(2), for positive normal x."""
    form = FORMAT[x.type]
    bits = m.bits(x)
    k = (bits - _ROOT_HALF[x.type]) >> form.mantissa
    return k, m.from_bits(bits - (k << form.mantissa))


def _log_tail(m: Any, f: Value) -> Value:
    """log(1 + f) - f."""
    if f.type == "f32":
        return f * f * polynomial(m, f, _LOG32)
    s = f / (f + 2.0)
    z, half = s * s, 0.5 * f * f
    return s * m.fma(z, polynomial(m, z, _LOG64), half) - half


def _log_special(m: Any, x: Value, result: Value) -> Value:
    """What a logarithm is at 0, below, at infinity and at NaN."""
    low = m.where(x == 0.0, -INF, m.constant(NAN, x))
    return m.where(x < INF, m.where(x > 0.0, result, low), x)


def _normal(m: Any, x: Value) -> tuple[Value, Value]:
    """x without its subnormal exponent, and what to add to the exponent for it."""
    form = FORMAT[x.type]
    tiny = x < form.smallest
    power = form.mantissa + 2
    zero = m.constant(0.0, x)
    return m.where(tiny, x * 2.0**power, x), m.where(tiny, zero - float(power), zero)


def _log(m: Any, x: Value) -> tuple[Value, Value, Value]:
    """The exponent of x as float, f, and log(1+f) - f."""
    scaled, shift = _normal(m, x)
    k, z = _split(m, scaled)
    f = z - 1.0
    return m.cast(k, x.type) + shift, f, _log_tail(m, f)


def log(m: Any, x: Value) -> Value:
    k, f, tail = _log(m, x)
    high, low = _LN2_SHORT[x.type]
    return _log_special(m, x, m.fma(k, high, f + m.fma(k, low, tail)))


def log_moderate(m: Any, x: Value) -> Value:
    """log(x) where that is known to be a positive normal number or NaN."""
    k, z = _split(m, x)
    high, low = _LN2_SHORT[x.type]
    k, f = m.cast(k, x.type), z - 1.0
    return m.fma(k, high, f + m.fma(k, low, _log_tail(m, f)))


_LOG2_OF_E = {"f32": (1.4426950216293335, 1.925963033500011e-08), "f64": (1.4426950408889634, 2.0355273740931033e-17)}
_LOG10_OF_E = {"f32": (0.4342944920063019, -1.0103049952192578e-08), "f64": (0.4342944819032518, 1.098319650216765e-17)}
_LOG10_OF_2 = {
    "f32": (0.30103302001953125, -3.0243555500547862e-06),
    "f64": (0.30102999566395283, 2.8363394551044964e-14),
}


def log2(m: Any, x: Value) -> Value:
    k, f, tail = _log(m, x)
    high, low = _LOG2_OF_E[x.type]
    return _log_special(m, x, k + m.fma(f, high, m.fma(f, low, tail * high)))


def log10(m: Any, x: Value) -> Value:
    """Rounded almost correctly, so that powers of ten give integers."""
    k, f, tail = _log(m, x)
    (unit, unit_low), (high, low) = _LOG10_OF_2[x.type], _LOG10_OF_E[x.type]
    part, part_error = two_product(m, f, high)
    total, error = quick_two_sum(k * unit, part)
    rest = m.fma(tail, high, m.fma(f, low, m.fma(k, unit_low, part_error)))
    return _log_special(m, x, total + (error + rest))


def log1p(m: Any, x: Value, low: Value | None = None, moderate: bool = False) -> Value:
    """log(1 + x + low), where `low` is a rounding error of x; `moderate` promises that 1 + x is positive and not huge."""
    form = FORMAT[x.type]
    step = 1 << form.mantissa
    u = x + 1.0
    power = (m.bits(u) - _ROOT_HALF[x.type]) & -step  # k in the place of an exponent
    down = m.from_bits(m.constant(form.bias * step, power) - power)
    f = m.fma(x, down, down - 1.0 if low is None else m.fma(low, down, down - 1.0))
    if low is not None:  # without reduction both words count
        f = m.where(power == 0, x + low, f)
    if not moderate:  # 1 has no weight where `down` would not be a normal number
        f = m.where(u < 2.0 ** (form.bias - 1), f, m.from_bits(m.bits(u) - power) - 1.0)
    high, short = (word / step for word in _LN2_SHORT[x.type])
    k = m.cast(power, x.type)
    result = m.fma(k, high, f + m.fma(k, short, _log_tail(m, f)))
    if not moderate:
        sign = m.bits(u) >> (8 * SIZE[x.type] - 1)
        below = m.from_bits(sign | m.bits(m.constant(-INF, x)))  # -inf for u = 0, NaN for less
        result = m.where(u <= 0.0, below, m.where(u < INF, result, u))
    return m.copysign(result, x)


def asinh(m: Any, x: Value) -> Value:
    size = m.real_abs(x)
    large = size > (2.0**30 if x.type == "f32" else 2.0**60)
    part = size * size / (m.real_sqrt(m.fma(size, size, 1.0)) + 1.0)
    high, low = quick_two_sum(size, part)
    zero = m.constant(0.0, x)
    result = log1p(m, m.where(large, size, high), m.where(large, zero, low))
    return m.copysign(m.where(large, result + _LN2[x.type][0], result), x)


def acosh(m: Any, x: Value) -> Value:
    large = x > (2.0**30 if x.type == "f32" else 2.0**60)
    t = m.where(x >= 1.0, x - 1.0, NAN)
    high, low = two_sum(m.real_sqrt(m.fma(t, t, t + t)), t)
    result = log1p(m, m.where(large, x, high), m.where(large, m.constant(0.0, x), low))
    return m.where(large, result + _LN2[x.type][0], result)


def atanh(m: Any, x: Value) -> Value:
    size = m.real_abs(x)
    d, d_low = quick_two_sum(m.constant(1.0, x), -size)
    ratio = (size + size) / d
    low = m.fma(-ratio, d_low, m.fma(-ratio, d, size + size)) / d
    low = m.where((size < 1.0) & (size > 0.01), low, 0.0)
    return m.copysign(0.5 * log1p(m, ratio, low), x)


def log_sigmoid(m: Any, x: Value) -> Value:
    return m.where(x < 0.0, x, -0.0) - log1p(m, exp(m, -m.real_abs(x)), moderate=True)


# -- powers ------------------------------------------------------------------------------------

# float32, computed in float64: log2(1+f) = f L(f) as above, error 2^-37; 2**r for |r| <= 1/2, error 2^-28
_POW_LOG = (
    1.4426950408870833, -0.7213475203125354, 0.48089834844465956, -0.36067379642371833, 0.2885388383651924,
    -0.24044624665653885, 0.2061051910535307, -0.18044051702001707, 0.16025754245095342, -0.14248093124013778,
    0.12986748941661533, -0.13439376647344523, 0.13406486076042712, -0.07170983220625893,
)  # fmt: skip
_POW_EXP = (
    0.9999999998466789,
    0.6931472075096322,
    0.2402265218597713,
    0.05550325526020113,
    0.009617905227682036,
    0.0013401099880279938,
    0.00015506162740782975,
)
# float64: log(1+f) = 2s + s^3 (2/3 + s^2 L(s^2)), error 2^-72
_POW_ATANH = (
    0.3999999999999998, 0.28571428571443847, 0.22222222217787507, 0.1818181884434236, 0.15384558400894333,
    0.13336265675286876, 0.11675755010128785, 0.11981979917757882,
)  # fmt: skip
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)


def _log_twice(m: Any, x: Value) -> tuple[Value, Value]:
    """log(x) in two words for finite x > 0 in float64: exact to about 2^-66."""
    scaled, shift = _normal(m, x)
    k, z = _split(m, scaled)
    k = m.cast(k, x.type) + shift
    f = z - 1.0
    d, d_low = quick_two_sum(m.constant(2.0, x), f)
    inverse = 1.0 / d
    s = f * inverse
    s_low = inverse * m.fma(-s, d_low, m.fma(-s, d, f))
    z, z_low = two_product(m, s, s)
    z_low = m.fma(s + s, s_low, z_low)
    q, q_low = quick_two_sum(m.constant(_TWO_THIRDS[0], x), z * polynomial(m, z, _POW_ATANH))
    q_low = q_low + _TWO_THIRDS[1]
    t, t_low = two_product(m, z, q)
    t_low = m.fma(z, q_low, m.fma(z_low, q, t_low))
    u, u_low = two_product(m, s, t)
    u_low = m.fma(s, t_low, m.fma(s_low, t, u_low))
    high, low = quick_two_sum(s + s, u)
    low = low + (s_low + s_low + u_low)
    total, error = quick_two_sum(k * _LN2_SHORT["f64"][0], high)
    return quick_two_sum(total, error + m.fma(k, _LN2_SHORT["f64"][1], low))


def exp_twice(m: Any, x: Value, low: Value) -> Value:
    """exp(x + low) in float64, rounded almost correctly."""
    low = m.where(m.real_abs(x) < 1000.0, low, 0.0)
    x = clamp(m, x, -746.0, 710.0)
    n, k = nearest(m, x, _LOG2_E)
    exact = m.fma(n, -_LN2["f64"][0], x)
    r, rest = quick_two_sum(exact, m.fma(n, -_LN2["f64"][1], low))
    one, error = quick_two_sum(m.constant(1.0, x), r)
    return scale(m, one + (error + m.fma(r * r, polynomial(m, r, _EXP["f64"]), rest)), k)


def _pow_magnitude(m: Any, x: Value, y: Value) -> Value:
    """x**y for x >= 0, but for x = 1 and y = 0."""
    ends = m.where(x == 0.0, -INF, x)  # the logarithm at 0, infinity and NaN
    if x.type == "f64":
        high, low = _log_twice(m, x)
        high = m.where((x > 0.0) & (x < INF), high, ends)
        product = y * high
        rest = m.fma(y, high, -product) + y * low
        return exp_twice(m, product, rest)
    wide, y = m.cast(x, "f64"), m.cast(y, "f64")
    k, z = _split(m, wide)
    f = z - 1.0
    high = m.fma(f, polynomial(m, f, _POW_LOG), m.cast(k, "f64"))
    high = m.where((x > 0.0) & (x < INF), high, m.cast(ends, "f64"))
    n, k = nearest(m, clamp(m, y * high, -1000.0, 1000.0), 1.0)
    r = clamp(m, y * high, -1000.0, 1000.0) - n
    return m.cast(polynomial(m, r, _POW_EXP) * power_of_two(m, k), "f32")


def pow(m: Any, x: Value, y: Value) -> Value:
    result = _pow_magnitude(m, m.real_abs(x), y)
    whole = m.trunc(y) == y
    odd = whole & (m.trunc(y * 0.5) != y * 0.5)
    negative = m.bits(x) < 0
    result = m.where(negative & odd, -result, result)
    result = m.where((x < 0.0) & (x > -INF) & ~whole & (y == y), NAN, result)
    one = (x == 1.0) | (y == 0.0) | ((x == -1.0) & (m.real_abs(y) == INF))
    return m.where(one, 1.0, result)


REAL: dict[str, Any] = {
    "exp": exp, "decay": decay, "exp2": exp2, "expm1": expm1, "sigmoid": sigmoid, "sinh": sinh, "cosh": cosh, "tanh": tanh,
    "log": log, "log2": log2, "log10": log10, "log1p": log1p, "asinh": asinh,
    "acosh": acosh, "atanh": atanh,
    "log_sigmoid": log_sigmoid, "pow": pow,
}  # fmt: skip
