"""The error function, the normal distribution and their inverses over real kernel values.

erf, erfc and erfinv have float32 forms of their own; the others compute in float64. Polynomials and rational
functions are our fits; the comment beside each says what it stands for and its relative error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..render.value import Value
from .exponentials import exp, exp_moderate, exp_twice, log, log1p
from .floats import FORMAT, clamp, polynomial, two_product

INF, NAN = math.inf, math.nan

# erf(x) = x + x P(x^2) for |x| <= 1; errors 2^-29 and 2^-56
_ERF = {
    "f32": (0.128379166, -0.376126289, 0.112836182, -0.026855126, 0.00519073335, -0.000803075032, 7.92030332e-05),
    "f64": (
        0.1283791670955126, -0.3761263890318411, 0.11283791670972064, -0.026866170648280868, 0.005223977655681924,
        -0.0008548328735019924, 0.00012055394316693391, -1.4927094418590953e-05, 1.6484721416476395e-06,
        -1.6598227004409022e-07, 1.6302948400762582e-08, -1.7629458919771963e-09, 1.638012276313396e-10,
    ),
}  # fmt: skip
# -log(erfc(x)) from 1 to 4, and as polynomial of x - 1 from 1 to 6; errors of erf 2^-32 and 2^-54
_LOG_ERFC = {
    "f32": (
        -0.000106724976, 1.12920594, 0.633935869, 0.107670985, -0.0247509424, 0.00404091598, -0.000409668079,
        1.91346571e-05,
    ),
    "f64": (
        1.8496055099332485, 2.6389675142347357, 0.8431072563606704, 0.04156109801314952, -0.010033825167053236,
        0.0019779017213867253, -0.00023732052728575015, -2.6279737802891766e-05, 2.715615132844815e-05,
        -9.594800763347344e-06, 2.0329784639890196e-06, -1.101587750024659e-07, -1.2592143991713446e-07,
        7.017566094118203e-08, -2.3582516091600977e-08, 5.972992020826516e-09, -1.2001452869101214e-09,
        1.9322089466975604e-10, -2.4726004311484532e-11, 2.462328935097147e-12, -1.8400496893763642e-13,
        9.704040337574886e-15, -3.218521470161205e-16, 5.045952449612504e-18,
    ),
}  # fmt: skip
# (1 + 2x) exp(x^2) erfc(x) as polynomial of (x - 4)/(x + 4), for all x >= 0; error 2^-54
_ERFCX = (
    1.2329951186255526, -0.13962111684056205, 0.015379652102606584, 0.06809705425464853, -0.10103906603567729,
    0.09373283499961188, -0.0663303658238854, 0.03716751552053599, -0.016197733946353033, 0.0050319701068425255,
    -0.0007577739098583035, -0.00019925730336676963, 0.00015062383733231228, -2.4397342100637783e-05,
    -1.1226874768548216e-05, 5.705919048898675e-06, 3.0083989871231277e-07, -8.203351576529653e-07,
    6.818257504551732e-08, 1.0581051550310767e-07, -1.4394198528840714e-08, -1.2137224985189818e-08,
    8.183713578814816e-10, 8.949650750284089e-10, 1.2616086020014233e-10,
)  # fmt: skip
# the same in float32 from 0.48 to 10.3, of (x - 2)/(x + 2); error 2^-26
_ERFCX_SHORT = (
    1.27697837, -0.0927638635, -0.166029438, 0.164052591, -0.0542385466, -0.00804504845, 0.00884928089,
    0.00129353232, -0.00181167142, -0.000406601117, 0.00055448513,
)  # fmt: skip
# float32: log2 of the normal distribution function at -x is -1 + x L(x) from 0 to 6, weighted by that function, error
# 2^-26; it falls beyond. 2**f for |f| <= 1/2, error 2^-29
_LOG2_NDTR = (
    -1.1511054039001465, -0.45921045541763306, -0.05247512832283974, 0.007000850047916174,
    -4.762278331327252e-05, -0.0002549473138060421, 6.87693027430214e-05, -9.563976163917687e-06,
    7.206647865132254e-07, -2.3183238440083187e-08,
)  # fmt: skip
_EXP2 = (
    1.0, 0.6931471824645996, 0.24022647738456726, 0.055503323674201965, 0.009618437848985195, 0.0013398900628089905,
    0.00015353341586887836,
)  # fmt: skip
# erfinv(x)/x = sqrt(pi)/2 + x^2 R, where R is a rational function of 0.64 - x^2, for |x| <= 0.8; error 2^-53
_HALF_ROOT_PI = {
    "f32": (0.8862269520759583, -2.662320023830404e-08),
    "f64": (0.886226925452758, -3.8332932499128993e-17),
}
_CENTRE = (
    (
        0.38518019936448594, 2.9782739066682837, 8.705753912772764, 12.001801759967817, 7.93592082276888,
        2.2622040926433957, 0.20105423530139113, 0.000634168212794781,
    ),
    (
        1.0, 8.964317901330132, 31.562799052466243, 55.44500123414235, 51.04309812020088, 23.673728471972858,
        4.827072655256165, 0.30256050135826856,
    ),
)  # fmt: skip
# y with erfc(y) = exp(-r^2) as rational functions: of r - 1 up to r = 5.5, then of r - 5.5; error 2^-54
_NEAR = (
    (
        0.636716137214211, 3.061331100940491, 6.320899788519909, 7.299842283993913, 5.117431690353776,
        2.1969420059098126, 0.5514685413029795, 0.07244178625446607, 0.004074583529005852, 6.545695030563527e-05,
    ),
    (
        1.0, 3.271965925478873, 4.712991321047881, 3.7933362099265193, 1.8012943532157293, 0.4906244173284188,
        0.06861565377541161, 0.004009374537902157, 6.5456449453006e-05,
    ),
)  # fmt: skip
_FAR = (
    (
        5.290983392570703, 4.399381174171589, 1.5053897962205818, 0.2730053128061586, 0.028160526094872754,
        0.0016482181263844234, 5.1509347313001016e-05, 7.4437196063035e-07, 3.5070040439260525e-09,
    ),
    (
        1.0, 0.638355341449645, 0.1617125459621427, 0.020617539474865613, 0.001388630603463824,
        4.753315259489699e-05, 7.250882946836152e-07, 3.506998488752646e-09,
    ),
)  # fmt: skip
# both in float32, the second for r up to 4.1 only; errors 2^-28 and 2^-32
_CENTRE_SHORT = (
    (0.3851801962492794, 1.077759391512083, 0.6037274037040952, 0.01515861348938592),
    (1.0, 4.030222835413143, 4.448957421218901, 1.1994773561847671),
)
_NEAR_SHORT = (
    (
        0.6367156858570133, 1.9469071044287547, 2.1730934774076918, 1.0457955833486512, 0.18501621303093105,
        0.007807166529875698,
    ),
    (1.0, 1.5216873149475663, 0.8871729771584728, 0.17725187428245817, 0.007807760947834113),
)  # fmt: skip
_SQRT_HALF, _SQRT_HALF_LOW = 0.7071067811865476, -4.833646656726457e-17


def widened(function: Callable[..., Any]) -> Callable[..., Any]:
    """A float64 body that also serves float32."""

    def body(m: Any, *args: Value) -> Value:
        result = function(m, *(m.cast(a, "f64") for a in args))
        return m.cast(result, args[0].type)

    body.__name__, body.__doc__ = function.__name__, function.__doc__
    return body


def erf(m: Any, x: Value) -> Value:
    size = m.real_abs(x)
    small = m.fma(x, polynomial(m, x * x, _ERF[x.type]), x)
    top, start = (4.0, 0.0) if x.type == "f32" else (6.0, 1.0)
    exponent = polynomial(m, clamp(m, size, 1.0, top) - start, _LOG_ERFC[x.type])
    large = m.copysign(1.0 - exp_moderate(m, -exponent), x)
    return m.where(size > 1.0, large, small)


def _erfcx_positive(m: Any, x: Value) -> Value:
    inverse = 1.0 / (x + 4.0)
    t = inverse * (x - 4.0)
    t = m.fma(inverse, m.fma(-t, x, m.fma(t + 1.0, -4.0, x)), t)  # the quotient's rounding would show
    t = m.where(x < 1e100, t, m.where(x == x, 1.0, x))
    top, below = polynomial(m, t, _ERFCX), m.fma(x, 2.0, 1.0)
    inverse = 1.0 / below
    result = top * inverse
    rest = m.fma(-result, m.fma(x, 2.0, 1.0 - below), m.fma(-result, below, top))
    return m.where(x < 1e100, m.fma(rest, inverse, result), result)


def _erfcx_over_root(m: Any, x: Value) -> Value:
    """erfcx(x / sqrt(2)) for x >= 0, with the rounding of the argument made good by the derivative, where that is more than rounding."""
    a = x * _SQRT_HALF
    low = m.fma(x, _SQRT_HALF, -a) + x * _SQRT_HALF_LOW
    value = _erfcx_positive(m, a)
    slope = m.fma(a + a, value, -2.0 / math.sqrt(math.pi))
    return m.where(x < 1e6, m.fma(low, slope, value), value)


def _exp_of_square(m: Any, x: Value, factor: float) -> Value:
    """exp(factor x^2), where the square is kept in two words."""
    x = clamp(m, x, None, 1e100)
    square, low = two_product(m, x, x)
    return exp_twice(m, factor * square, factor * low)


def _erf_small(m: Any, x: Value) -> Value:
    return m.fma(x, polynomial(m, x * x, _ERF[x.type]), x)


def _erfc_tail_32(m: Any, x: Value) -> Value:
    """erfc(x) for x >= 1/2 in float32."""
    x = clamp(m, x, None, 10.3)
    square, low = two_product(m, x, x)
    top = polynomial(m, (x - 2.0) / (x + 2.0), _ERFCX_SHORT)
    return exp(m, -square, -low) * (top / m.fma(x, 2.0, 1.0))


def erfc(m: Any, x: Value) -> Value:
    size = m.real_abs(x)
    if x.type == "f32":
        tail = _erfc_tail_32(m, size)
    else:
        tail = _exp_of_square(m, size, -1.0) * _erfcx_positive(m, size)
    return m.where(size < 0.5, 1.0 - _erf_small(m, x), m.where(x < 0.0, 2.0 - tail, tail))


@widened
def erfcx(m: Any, x: Value) -> Value:
    """exp(x^2) erfc(x)."""
    size = m.real_abs(x)
    right = _erfcx_positive(m, size)
    growth = _exp_of_square(m, size, 1.0)
    small = growth * (1.0 - _erf_small(m, x))
    return m.where(size < 0.5, small, m.where(x < 0.0, 2.0 * growth - right, right))


def ndtr_quick(m: Any, x: Value) -> Value:
    """The normal distribution function where only its absolute error counts, which is 2^-24."""
    if x.type != "f32":
        return (erf(m, x * _SQRT_HALF) + 1.0) * 0.5
    # the logarithm is -1 + slope * size: its nearest integer n, in the low bits of a sum, and the rest; at most -127,
    # where 2**n gives 0
    size = clamp(m, m.real_abs(x), None, 11.4315)
    slope = polynomial(m, size, _LOG2_NDTR)
    form = FORMAT["f32"]
    magic = form.magic + (form.bias - 1)
    shifted = m.fma(slope, size, magic)
    power = m.from_bits(m.bits(shifted) << form.mantissa)
    tail = polynomial(m, m.fma(slope, size, magic - shifted), _EXP2) * power
    return m.where(x > 0.0, 1.0 - tail, tail)


@widened
def ndtr(m: Any, x: Value) -> Value:
    """The normal distribution function."""
    size = m.real_abs(x)
    tail = _exp_of_square(m, size, -0.5) * (0.5 * _erfcx_over_root(m, size))
    outer = m.where(x < 0.0, tail, 1.0 - tail)
    return m.where(size < 0.7, m.fma(_erf_small(m, x * _SQRT_HALF), 0.5, 0.5), outer)


@widened
def log_ndtr(m: Any, x: Value) -> Value:
    size = m.real_abs(x)
    factor = 0.5 * _erfcx_over_root(m, size)
    tail = _exp_of_square(m, size, -0.5) * factor
    small = 0.5 * _erf_small(m, x * _SQRT_HALF) - 0.5
    middle = (size < 0.7) | (x > 0.0)
    right = log1p(m, m.where(size < 0.7, small, -tail))
    left = log(m, m.where(x > -INF, factor, 1.0)) - 0.5 * (x * x)
    return m.where(middle, right, left)


def _rational(m: Any, x: Value, parts: tuple[tuple[float, ...], tuple[float, ...]]) -> tuple[Value, Value]:
    return polynomial(m, x, parts[0]), polynomial(m, x, parts[1])


def _inverse(m: Any, x: Value, tail: Value) -> Value:
    """erfinv(x), where tail = 1 - |x| may be known better than x."""
    size = m.real_abs(x)
    r = m.real_sqrt(-log(m, tail))
    short = x.type == "f32"
    top, below = _rational(m, r - 1.0, _NEAR_SHORT if short else _NEAR)
    if not short:
        far, far_below = _rational(m, r - 5.5, _FAR)
        near = r < 5.5
        top, below = m.where(near, top, far), m.where(near, below, far_below)
    square = x * x
    middle, middle_below = _rational(m, 0.64 - square, _CENTRE_SHORT if short else _CENTRE)
    centre = size <= 0.8
    ratio = m.where(centre, middle, top) / m.where(centre, middle_below, below)
    high, low = _HALF_ROOT_PI[x.type]
    result = m.where(centre, m.fma(size, high, size * m.fma(square, ratio, low)), ratio)
    result = m.where(tail == 0.0, INF, result)
    return m.copysign(m.where(tail >= 0.0, result, NAN), x)


def erfinv(m: Any, x: Value) -> Value:
    return _inverse(m, x, 1.0 - m.real_abs(x))


@widened
def ndtri(m: Any, p: Value) -> Value:
    """The inverse of the normal distribution function."""
    lower = p < 0.5
    tail = m.where(lower, p, 1.0 - p) * 2.0
    x = m.where(lower, tail - 1.0, m.fma(p, 2.0, -1.0))
    return math.sqrt(2.0) * _inverse(m, x, tail)


REAL: dict[str, Any] = {
    "erf": erf, "erfc": erfc, "ndtr_quick": ndtr_quick, "erfcx": erfcx, "erfinv": erfinv, "ndtr": ndtr, "log_ndtr": log_ndtr, "ndtri": ndtri,
}  # fmt: skip
