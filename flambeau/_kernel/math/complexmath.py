"""Elementary functions over complex kernel values, from the real ones, with the special cases of C's annex G."""

from __future__ import annotations

import math
from typing import Any

from ..render.symbols import Complex
from ..render.value import Value
from .exponentials import log1p
from .floats import FORMAT, power_of_two, two_product, two_sum

INF, NAN = math.inf, math.nan
_LN2 = math.log(2.0)


def _times_i(z: Complex) -> Complex:
    return Complex(-z.im, z.re)


def _over_i(z: Complex) -> Complex:
    return Complex(z.im, -z.re)


# -- parts -------------------------------------------------------------------------------------


def absolute(m: Any, z: Complex) -> Value:
    return m.hypot(z.re, z.im)


def sgn(m: Any, z: Complex) -> Complex:
    size = m.hypot(z.re, z.im)
    safe = m.where(size == 0.0, 1.0, size)
    return Complex(z.re / safe, z.im / safe)


def isfinite(m: Any, z: Complex) -> Value:
    return m.isfinite(z.re) & m.isfinite(z.im)


def isinf(m: Any, z: Complex) -> Value:
    return m.isinf(z.re) | m.isinf(z.im)


def reciprocal(m: Any, z: Complex) -> Complex:
    return 1.0 / z


def _exponent(m: Any, z: Complex) -> Value:
    """The binary exponent of the larger part, kept where its power and the inverse are normal."""
    a, b = m.real_abs(z.re), m.real_abs(z.im)
    form = FORMAT[a.type]
    k = (m.bits(m.where(a > b, a, b)) >> form.mantissa) - form.bias
    return m.maximum(m.minimum(k, form.bias - 2), 2 - form.bias)


def sqrt(m: Any, z: Complex) -> Complex:
    """The principal root."""
    k = _exponent(m, z) >> 1
    down = power_of_two(m, -(k + k))
    x, y = z.re * down, z.im * down
    size = m.real_abs(x)
    t = m.real_sqrt(0.5 * (size + m.hypot(x, y)))
    other = m.where(t == 0.0, 0.0, 0.5 * m.real_abs(y) / t)
    up, right = power_of_two(m, k), x >= 0.0
    re, im = m.where(right, t, other) * up, m.where(right, other, t) * up
    # an infinite imaginary part wins; an infinite real part leaves 0 or NaN in the other place
    vertical, left, far = m.real_abs(z.im) == INF, z.re == -INF, m.real_abs(z.re) == INF
    rest = m.where(z.im == z.im, 0.0, z.im)
    re = m.where(vertical, INF, m.where(far, m.where(left, rest, INF), m.where(z.re == z.re, re, NAN)))
    im = m.where(vertical, INF, m.where(far, m.where(left, INF, rest), m.where(z.re == z.re, im, NAN)))
    return Complex(re, m.copysign(im, z.im))


def rsqrt(m: Any, z: Complex) -> Complex:
    return reciprocal(m, sqrt(m, z))


# -- exponentials ------------------------------------------------------------------------------


def _exp_scaled(m: Any, x: Value) -> tuple[Value, Value]:
    """Two factors of exp(x), so that the product with something small need not overflow."""
    large = x > (88.0 if x.type == "f32" else 709.0)
    return m.exp(m.where(large, x - 8.0, x)), m.where(large, math.exp(8.0), m.constant(1.0, x))


def exp(m: Any, z: Complex) -> Complex:
    x, y = z.re, z.im
    first, second = _exp_scaled(m, x)
    c, s = m.cos(y), m.sin(y)
    re, im = (first * c) * second, (first * s) * second
    # where the angle has no meaning: nothing at -inf, an infinite real part at +inf
    re = m.where(c == c, re, m.where(x == -INF, 0.0, m.where(x == INF, INF, m.constant(NAN, x))))
    im = m.where(c == c, im, m.where(x == -INF, 0.0, m.constant(NAN, y)))
    return Complex(re, m.where(y == 0.0, y, im))


def exp2(m: Any, z: Complex) -> Complex:
    return exp(m, z * _LN2)


def expm1(m: Any, z: Complex) -> Complex:
    half = m.sin(0.5 * z.im)
    whole = exp(m, z)
    small = m.fma(m.expm1(z.re), m.cos(z.im), -2.0 * half * half)
    return Complex(m.where(m.real_abs(z.re) < 1.0, small, whole.re - 1.0), whole.im)


def sigmoid(m: Any, z: Complex) -> Complex:
    return reciprocal(m, exp(m, -z) + 1.0)


def sinh(m: Any, z: Complex) -> Complex:
    x, y = z.re, z.im
    c = m.cos(y)
    re = m.where((m.real_abs(x) == INF) & (c != c), INF, m.sinh(x) * c)
    return Complex(m.where(x == 0.0, x, re), m.where(y == 0.0, y, m.cosh(x) * m.sin(y)))


def cosh(m: Any, z: Complex) -> Complex:
    x, y = z.re, z.im
    c = m.cos(y)
    re = m.where((m.real_abs(x) == INF) & (c != c), INF, m.cosh(x) * c)
    flat = (x == 0.0) | (y == 0.0)
    zero = m.copysign(m.constant(0.0, x), m.from_bits(m.bits(x) ^ m.bits(y)))
    return Complex(re, m.where(flat, zero, m.sinh(x) * m.sin(y)))


def tanh(m: Any, z: Complex) -> Complex:
    x, y = z.re, z.im
    size = m.real_abs(x)
    limit = 15.0 if x.type == "f32" else 25.0
    s, c = m.sin(y), m.cos(y)
    near = m.where(size < limit, size, limit)
    sh = m.sinh(near)
    below = m.fma(c, c, sh * sh)
    decay = m.exp(-2.0 * size)
    far = size >= limit
    re = m.copysign(m.where(far, 1.0, sh * m.cosh(near) / below), x)
    im = m.where(far, 4.0 * (s * c) * decay, s * c / below)
    zero = m.copysign(m.constant(0.0, x), y)
    im = m.where((y == 0.0) | (size == INF) & (s != s), zero, im)
    re = m.where(x == 0.0, x, m.where((x != x) | (s != s) & (size < INF), NAN, re))
    return Complex(re, m.where((x != x) & (y != 0.0), NAN, im))


def sin(m: Any, z: Complex) -> Complex:
    return _over_i(sinh(m, _times_i(z)))


def cos(m: Any, z: Complex) -> Complex:
    return cosh(m, _times_i(z))


def tan(m: Any, z: Complex) -> Complex:
    return _over_i(tanh(m, _times_i(z)))


def sinc(m: Any, z: Complex) -> Complex:
    w = z * math.pi
    return m.where(z == 0.0, m.constant(1.0, z), sin(m, w) / w)


# -- logarithms --------------------------------------------------------------------------------


def _log_size(m: Any, z: Complex) -> Value:
    """log |z|, accurate near |z| = 1 as well."""
    k = _exponent(m, z)
    k = m.where((k >= -1) & (k < 1), 0, k)
    down = power_of_two(m, -k)
    a, b = m.real_abs(z.re) * down, m.real_abs(z.im) * down
    a, b = m.where(a > b, a, b), m.where(a > b, b, a)
    p, p_low = two_product(m, a, a)
    q, q_low = two_product(m, b, b)
    total, low = two_sum(p - 1.0, q)
    result = m.fma(m.cast(k, a.type), _LN2, 0.5 * log1p(m, total, low + (p_low + q_low)))
    result = m.where((z.re == 0.0) & (z.im == 0.0), -INF, result)
    return m.where(isinf(m, z), INF, m.where(m.isnan(z), NAN, result))


def log(m: Any, z: Complex) -> Complex:
    return Complex(_log_size(m, z), m.atan2(z.im, z.re))


def log2(m: Any, z: Complex) -> Complex:
    return log(m, z) * (1.0 / _LN2)


def log10(m: Any, z: Complex) -> Complex:
    return log(m, z) * (1.0 / math.log(10.0))


def _log1p_size(m: Any, z: Complex) -> Value:
    """log |1 + z|."""
    x, y = z.re, z.im
    p, p_low = two_product(m, x, x)
    q, q_low = two_product(m, y, y)
    first, low = two_sum(x + x, p)
    total, more = two_sum(first, q)
    near = 0.5 * log1p(m, total, more + (low + (p_low + q_low)))
    small = (m.real_abs(x) < 0.5) & (m.real_abs(y) < 0.5)
    return m.where(small, near, _log_size(m, Complex(x + 1.0, y)))


def clog1p(m: Any, z: Complex) -> Complex:
    return Complex(_log1p_size(m, z), m.atan2(z.im, z.re + 1.0))


def pow(m: Any, z: Any, w: Any) -> Complex:
    """z**w; parts of float32 are raised in float64."""
    type = z.type if isinstance(z, Complex) else w.type
    result = exp(m, m.cast(w, "c128") * log(m, m.cast(z, "c128")))
    return m.cast(result, type)


# -- inverse functions -------------------------------------------------------------------------


def asinh(m: Any, z: Complex) -> Complex:
    return _over_i(asin(m, _times_i(z)))


def asin(m: Any, z: Complex) -> Complex:
    left, right = sqrt(m, Complex(1.0 - z.re, -z.im)), sqrt(m, Complex(z.re + 1.0, z.im))
    re = m.atan2(z.re, left.re * right.re - left.im * right.im)
    im = m.asinh(left.re * right.im - left.im * right.re)
    re = m.where(z.re == 0.0, z.re, re)
    return _infinite_asin(m, z, Complex(re, m.copysign(im, z.im)))


def _infinite_asin(m: Any, z: Complex, result: Complex) -> Complex:
    """asin where a part is infinite."""
    x, y = z.re, z.im
    flat, tall = m.real_abs(x) == INF, m.real_abs(y) == INF
    right = m.where(y == y, m.constant(0.5 * math.pi, x), NAN)
    re = m.where(flat, m.where(tall, 0.25 * math.pi, right), 0.0)
    re = m.where(x == x, m.copysign(re, x), x)
    im = m.copysign(m.constant(INF, y), y)
    return m.where(flat | tall, Complex(re, im), result)


def acos(m: Any, z: Complex) -> Complex:
    left, right = sqrt(m, Complex(1.0 - z.re, -z.im)), sqrt(m, Complex(z.re + 1.0, z.im))
    re = m.where(z.re == 0.0, 0.5 * math.pi, 2.0 * m.atan2(left.re, right.re))
    im = m.asinh(right.re * left.im - right.im * left.re)
    flat, tall = m.real_abs(z.re) == INF, m.real_abs(z.im) == INF
    far = m.where(m.isnan(z), NAN, m.atan2(m.real_abs(z.im), z.re))
    far = m.where(tall & ~flat & (z.re == z.re), 0.5 * math.pi, far)
    big = m.copysign(m.constant(INF, z.im), -z.im)
    return m.where(flat | tall, Complex(far, big), Complex(re, m.copysign(im, -z.im)))


def acosh(m: Any, z: Complex) -> Complex:
    w = acos(m, z)
    flip = m.bits(z.im) < 0
    return Complex(m.real_abs(w.im), m.where(flip, -w.re, w.re))


def atanh(m: Any, z: Complex) -> Complex:
    x, y = m.real_abs(z.re), m.real_abs(z.im)
    size = m.hypot(x, y)
    huge = size > (1e15 if x.type == "f32" else 1e150)
    a, b = m.where(huge, 0.0, x), m.where(huge, 0.0, y)
    gap = 1.0 - a
    re = 0.25 * m.log1p(4.0 * a / m.fma(gap, gap, b * b))
    im = 0.5 * m.atan2(b + b, m.fma(gap, a + 1.0, -b * b))
    far = m.where(size == INF, 0.0, (x / size) / size)
    re, im = m.where(huge, far, re), m.where(huge, 0.5 * math.pi, im)
    im = m.where((z.im != z.im), NAN, im)
    re = m.where(x == 0.0, 0.0, re)
    re = m.where((x != x) & (y < INF) | (y != y) & (x < INF) & (x > 0.0), NAN, re)
    im = m.where((x != x) & (y < INF), NAN, im)
    return Complex(m.copysign(re, z.re), m.copysign(im, z.im))


def atan(m: Any, z: Complex) -> Complex:
    return _over_i(atanh(m, _times_i(z)))


COMPLEX: dict[str, Any] = {
    "abs": absolute, "sgn": sgn, "isfinite": isfinite, "isinf": isinf,
    "reciprocal": reciprocal, "sqrt": sqrt, "rsqrt": rsqrt, "exp": exp, "exp2": exp2, "expm1": expm1,
    "sigmoid": sigmoid, "sinh": sinh, "cosh": cosh, "tanh": tanh, "sin": sin, "cos": cos, "tan": tan,
    "sinc": sinc, "log": log, "log2": log2, "log10": log10, "log1p": clog1p, "pow": pow, "asin": asin,
    "acos": acos, "atan": atan, "asinh": asinh, "acosh": acosh, "atanh": atanh,
}  # fmt: skip
