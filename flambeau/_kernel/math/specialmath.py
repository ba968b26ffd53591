"""Special functions over kernel values: zeta, polygamma, incomplete gamma, orthogonal polynomials.

They loop until their terms no longer count, so they are slower than the elementary functions; float32 is
computed in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..render.symbols import register
from ..render.value import Value
from .errorfunctions import widened
from .exponentials import exp_moderate, log_moderate
from .floats import polynomial
from .gammafunctions import lgamma_positive

INF, NAN = math.inf, math.nan
_EPSILON = 2.0**-53

# -- zeta and polygamma ------------------------------------------------------------------------

# B(2k) / (2k)!, k from 1: the corrections of Euler and Maclaurin
_BERNOULLI = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
    -3617 / 10670622842880000, 43867 / 5109094217170944000, -174611 / 802857662698291200000,
    77683 / 14101100039391805440000, -236364091 / 1693824136731743669452800000,
)  # fmt: skip


def zeta(m: Any, x: Value, q: Value) -> Value:
    """Hurwitz: the sum of (k + q)**-x over k >= 0."""
    if x.type == "f64":
        return _zeta(m, x, q)
    usual = (q > 0.0) & (q < 1e30) & (x > 1.0) & (x < 1e4)
    made = m.cast(_zeta_in_vectors(m, m.cast(x, "f64"), m.cast(q, "f64")), x.type)
    return m.rare(~usual, lambda: _zeta(m, x, q), made)


def _zeta_in_vectors(m: Any, x: Value, q: Value) -> Value:
    """The same to 3e-9 for x above 1 and finite q above 0: five terms and four corrections do for all of them."""

    def power(a: Value) -> Value:
        exponent = -x * m.log(a)
        return m.exp(m.where(exponent > 700.0, 700.0, m.where(exponent < -700.0, -700.0, exponent)))

    a, term = q, power(q)
    total = term
    for _ in range(4):
        a = a + 1.0
        term = power(a)
        total = total + term
    tail = term * (a / (x - 1.0) - 0.5)
    factor, part, square, k = x, term / a, 1.0 / (a * a), 0.0
    for bernoulli in _BERNOULLI[:4]:
        tail = tail + factor * part * bernoulli
        factor = factor * (x + (k + 1.0)) * (x + (k + 2.0))
        part = part * square
        k += 2.0
    done = term * (a + x) <= (x - 1.0) * total * 2.0**-30
    return m.where(done, total, total + tail)


@widened
def _zeta(m: Any, x: Value, q: Value) -> Value:
    """The same for all arguments, element by element."""
    total = m.pow(q, -x)
    # terms one by one up to q + 9, or until they vanish beside the sum
    total, term, a = m.repeat(
        1 << 20,
        (total, total, q),
        lambda i, total, term, a: (total + m.pow(a + 1.0, -x), m.pow(a + 1.0, -x), a + 1.0),
        going=lambda total, term, a: ((a < q + 9.0) | (a <= 9.0)) & (m.real_abs(term) > m.real_abs(total) * _EPSILON),
    )
    done = m.real_abs(term) <= m.real_abs(total) * _EPSILON
    tail = term * a / (x - 1.0) - term * 0.5
    factor, power, k = x, term / a, 0.0
    for bernoulli in _BERNOULLI:
        tail = tail + factor * power * bernoulli
        factor = factor * (x + (k + 1.0)) * (x + (k + 2.0))
        power = power / (a * a)
        k += 2.0
    result = m.where(done, total, total + tail)
    large = (1.0 / (x - 1.0) + 0.5 / q) * m.pow(q, 1.0 - x)
    result = m.where(q > 1e8, large, result)
    pole = m.where(m.floor(q) == q, INF, m.where(m.floor(x) != x, NAN, result))
    result = m.where(q <= 0.0, pole, result)
    return m.where(x == 1.0, INF, m.where(x < 1.0, NAN, m.where((x != x) | (q != q), NAN, result)))


def trigamma(m: Any, x: Value) -> Value:
    """The second derivative of lgamma."""
    reflected = x < 0.5
    sine = m.sin(x * math.pi)  # with the error of the product, as PyTorch has it
    total = _trigamma_right(m, m.where(reflected, 1.0 - x, x))
    return m.where(reflected, math.pi**2 / (sine * sine) - total, total)


def _trigamma_right(m: Any, given: Value) -> Value:
    """trigamma for arguments from 1/2."""
    z = m.cast(given, "f64")
    total, near = m.constant(0.0, z), m.where(z < 1e30, z, 1e30)  # powers must be finite
    starts = (0.0,) if given.type == "f32" else (0.0, 4.0)
    for start in starts:  # four times 1 / z**2 each, as divisions take most of the time
        a, b, c, d = ((near + (start + k)) * (near + (start + k)) for k in range(4))
        left, right = a * b, c * d
        total = total + ((a + b) * right + (c + d) * left) / (left * right)
    total = m.where(z < 1e30, total, 0.0)
    inverse = 1.0 / (z + 4.0 * len(starts))
    u = inverse * inverse
    terms = polynomial(m, u, (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6))
    return m.cast(total + (1.0 + 0.5 * inverse + terms * u) * inverse, given.type)


def polygamma(m: Any, n: Any, x: Value) -> Value:
    """The n-th derivative of digamma, n >= 1 (a number, or a value above 1)."""
    if not isinstance(n, Value):
        return trigamma(m, x) if n == 1 else _polygamma(m, m.constant(n, x), x)
    return _polygamma(m, n, x)


@widened
def _polygamma(m: Any, n: Value, x: Value) -> Value:
    odd = m.floor(n * 0.5) * 2.0 != n
    size = m.exp(m.lgamma(n + 1.0)) * _zeta(m, n + 1.0, x)
    return m.where(odd, size, -size)


# -- incomplete gamma functions ----------------------------------------------------------------

# Temme's expansion for large a near x = a: powers of eta for each power of 1/a
_TEMME = (
    (
        -0.3333333333333333, 0.08333333333333333, -0.014814814814814815, 0.0011574074074074073,
        0.0003527336860670194, -0.0001787551440329218, 3.919263178522438e-05, -2.185448510679992e-06,
        -1.85406221071516e-06, 8.296711340953087e-07, -1.7665952736826078e-07, 6.707853543401498e-09,
        1.0261809784240309e-08, -4.382036018453353e-09, 9.14769958223679e-10, -2.5514193994946248e-11,
    ),
    (
        -0.001851851851851852, -0.003472222222222222, 0.0026455026455026454, -0.0009902263374485596,
        0.00020576131687242798, -4.018775720164609e-07, -1.8098550334489977e-05, 7.64916091608111e-06,
        -1.6120900894563446e-06, 4.647127802807434e-09, 1.378633446915721e-07, -5.752545603517705e-08,
    ),
    (
        0.004133597883597883, -0.0026813271604938273, 0.0007716049382716049, 2.0093878600823047e-06,
        -0.0001073665322636516, 5.2923448829120125e-05, -1.2760635188618728e-05, 3.423578734096138e-08,
    ),
    (0.0006494341563786008, 0.00022947209362139917, -0.0004691894943952557, 0.00026772063206283885),
)  # fmt: skip
_LARGE = 1e4


def _gamma_factor(m: Any, a: Value, x: Value) -> Value:
    """x**a exp(-x) / gamma(a)."""
    return m.exp(a * m.log(x) - x - lgamma_positive(m, a))


def _lower_series(m: Any, a: Value, x: Value, wanted: Value, accuracy: float) -> Value:
    """The lower function by its power series, for x up to about a; less its factor."""
    one, x = m.constant(1.0, x), m.where(wanted, x, 0.0)
    total = m.repeat(
        4000, (one, one, a),
        lambda i, total, term, r: (total + term * (x / (r + 1.0)), term * (x / (r + 1.0)), r + 1.0),
        going=lambda total, term, r: term > total * accuracy,
    )[0]  # fmt: skip
    return total / a


def _upper_fraction(m: Any, a: Value, x: Value, wanted: Value, accuracy: float) -> Value:
    """The upper function by its continued fraction (Lentz's method), for x above a + 1; less its factor."""
    tiny = 1e-300
    b = x + 1.0 - a
    d = 1.0 / m.where(b == 0.0, tiny, b)

    def step(i: Value, h: Value, c: Value, d: Value, change: Value) -> Any:
        k = m.cast(i, x.type) + 1.0
        an = k * (a - k)
        bn = b + k * 2.0
        d = m.fma(an, d, bn)
        c = bn + an / c
        d = 1.0 / m.where(m.real_abs(d) < tiny, tiny, d)
        c = m.where(m.real_abs(c) < tiny, tiny, c)
        return h * (d * c), c, d, d * c

    start = m.constant(1.0 / tiny, x)
    return m.repeat(
        4000, (d, start, d, m.where(wanted, m.constant(0.0, x), 1.0)), step,
        going=lambda h, c, d, change: m.real_abs(change - 1.0) > accuracy,
    )[0]  # fmt: skip


def _near_mean(m: Any, a: Value, x: Value, upper: bool) -> Value:
    """Temme's uniform expansion for large a and x near it."""
    mu = (x - a) / a
    eta = m.copysign(m.real_sqrt((mu - m.log1p(mu)) * 2.0), mu)
    total, power = m.constant(0.0, x), m.constant(1.0, x)
    for row in _TEMME:
        total = total + polynomial(m, eta, row) * power
        power = power / a
    rest = m.exp(a * eta * eta * -0.5) / m.real_sqrt(a * (2.0 * math.pi)) * total
    argument = eta * m.real_sqrt(a * 0.5)
    return m.erfc(argument) * 0.5 + rest if upper else m.erfc(-argument) * 0.5 - rest


def _lower_sum(m: Any, a: Value, x: Value, terms: int) -> Value:
    """So many terms of the power series, as one quotient from the last term on; less its factor."""
    over, under = m.constant(1.0, x), m.constant(1.0, x)
    for k in range(terms, 0, -1):  # 1 + x / (a + k) * over / under
        under = (a + float(k)) * under
        over = m.fma(x, over, under)
    return over / (under * a)


def _upper_depth(m: Any, a: Value, x: Value, depth: int) -> Value:
    """The continued fraction down to a depth, as one quotient; less its factor."""
    b = x + 1.0 - a
    over, under = m.constant(0.0, x), m.constant(1.0, x)
    for k in range(depth, 0, -1):  # k (a - k) / (b + 2 k + over / under)
        over, under = (a - float(k)) * (under * float(k)), m.fma(b + 2.0 * k, under, over)
    return under / m.fma(b, under, over)


# So many terms of the series are enough up to _MODERATE, so many of the continued fraction if x is above a + 1 and the last number.
# From _SMALL to _WIDE all factors are normal numbers.
_TERMS = {"f32": (27, 12, 3.0), "f64": (39, 48, 2.0)}
_MODERATE, _SMALL, _WIDE = 12.0, 1e-20, 690.0


def _usual(m: Any, a: Value, x: Value, upper: bool, kind: str) -> Value:
    """The function of numbers of moderate size, without branches."""
    terms, depth, least = _TERMS[kind]
    below = x < m.maximum(a + 1.0, least)
    factor = exp_moderate(m, a * log_moderate(m, x) - x - lgamma_positive(m, a, kind))
    made = factor * m.where(below, _lower_sum(m, a, x, terms), _upper_depth(m, a, x, depth))
    return m.where(below ^ upper, made, 1.0 - made)


def _unusual(m: Any, a: Value, x: Value, upper: bool, accuracy: float) -> Value:
    """The function of any numbers."""
    valid = (a > 0.0) & (x > 0.0) & (a < INF) & (x < INF)
    safe_a, safe_x = m.where(valid, a, 1.0), m.where(valid, x, 1.0)
    near = (safe_a > _LARGE) & (m.real_abs(safe_x - safe_a) < safe_a * 0.3)
    # elements that another form serves leave a loop at once
    below = safe_x < safe_a + 1.0
    factor = _gamma_factor(m, safe_a, safe_x)
    series = factor * _lower_series(m, safe_a, safe_x, below & ~near, accuracy)
    fraction = factor * _upper_fraction(m, safe_a, safe_x, ~(below | near), accuracy)
    series, fraction = (1.0 - series, fraction) if upper else (series, 1.0 - fraction)
    served = (m.where(below, series, fraction),)
    # a loop of at most one round, as elements are computed one by one anyway
    (result,) = m.repeat(m.cast(near, "i64"), served, lambda i, _: (_near_mean(m, safe_a, safe_x, upper),))
    low, high = (1.0, 0.0) if upper else (0.0, 1.0)
    # as PyTorch has it: one argument at its limit decides, even if the other is NaN
    edge = m.where(a == INF, m.where(x == INF, NAN, low), m.where(x == INF, m.constant(high, x), NAN))
    edge = m.where(a == 0.0, m.where(x > 0.0, high, NAN), m.where(x == 0.0, low, edge))
    invalid = (x < 0.0) | (a < 0.0)
    return m.where(invalid, NAN, m.where(valid, result, edge))


def _regularised(m: Any, a: Value, x: Value, upper: bool) -> Value:
    """In float64; sums for float32 may end earlier."""
    kind, accuracy = a.type, _EPSILON if a.type == "f64" else 2.0**-28
    a, x = m.cast(a, "f64"), m.cast(x, "f64")
    usual = (a > _SMALL) & (x > _SMALL) & (a < _MODERATE) & (x < _WIDE)

    def unusual() -> Value:
        with a.r.undivided():  # to look for rare elements first would take all of the loops a second time
            return _unusual(m, a, x, upper, accuracy)

    safe_a, safe_x = m.where(usual, a, 1.0), m.where(usual, x, 1.0)
    made = m.rare(~usual, unusual, _usual(m, safe_a, safe_x, upper, kind), everywhere=True)
    return m.cast(made, kind)


def igamma(m: Any, a: Value, x: Value) -> Value:
    """The regularised lower incomplete gamma function."""
    return _regularised(m, a, x, False)


def igammac(m: Any, a: Value, x: Value) -> Value:
    """The regularised upper incomplete gamma function."""
    return _regularised(m, a, x, True)


# -- orthogonal polynomials --------------------------------------------------------------------


def _recurrence(m: Any, n: Value, second: Value, step: Callable[[Value, Value, Value], Value]) -> Value:
    """p(n) from p(0) = 1, p(1) and p(k + 1) = step(k, p(k), p(k - 1)); 0 where n is no degree."""
    start = m.constant(1.0, n)
    valid = (n >= 0.0) & (n < 2.0**63)
    count = m.cast(m.where(valid, n, 0.0), "i64")
    result = m.repeat(
        count - 1, (start, second), lambda i, before, last: (last, step(m.cast(i, n.type) + 1.0, last, before)),
        going=lambda before, last: last == last,
    )[1]  # fmt: skip
    return m.where(valid, m.where(count == 0, start, result), 0.0)


_MANY = 4096.0  # from this degree on, Chebyshev polynomials within [-1, 1] are computed from the angle


def _chebyshev(second: Callable[[Value], Value], angular: Callable[[Any, Value, Value], tuple[Value, Value]]) -> Any:
    """The four kinds differ in their first polynomial, and in what they are as functions of the angle."""

    @widened
    def body(m: Any, x: Value, n: Value) -> Value:
        n = m.trunc(n)
        distant = (n >= _MANY) & (n < 2.0**63) & (m.real_abs(x) <= 1.0)
        few = m.where(distant, 0.0, n)
        result = _recurrence(m, few, second(x), lambda k, last, before: x * 2.0 * last - before)
        # the ratio stays finite at the ends of the interval if the angle does not reach them
        angle = m.minimum(m.maximum(m.acos(x), 1e-9), math.pi - 1e-9)
        over, under = angular(m, angle, n)
        return m.where(distant, over / under, result)

    return body


def _even_multiple(m: Any, angle: Value, n: Value) -> tuple[Value, Value]:
    return m.cos(angle * n), m.constant(1.0, n)


def _next_multiple(m: Any, angle: Value, n: Value) -> tuple[Value, Value]:
    return m.sin(angle * (n + 1.0)), m.sin(angle)


def _half_cosine(m: Any, angle: Value, n: Value) -> tuple[Value, Value]:
    return m.cos(angle * (n + 0.5)), m.cos(angle * 0.5)


def _half_sine(m: Any, angle: Value, n: Value) -> tuple[Value, Value]:
    return m.sin(angle * (n + 0.5)), m.sin(angle * 0.5)


def _shifted(plain: Any) -> Any:
    return lambda m, x, n: plain(m, x * 2.0 - 1.0, n)


def _hermite(factor: float) -> Any:
    """H (factor 2) and He (factor 1); too high degrees give NaN."""

    def body(m: Any, x: Value, n: Value) -> Value:
        def step(k: Value, last: Value, before: Value) -> Value:
            return m.fma(x * factor, last, -(k * factor * before))

        degree = m.trunc(n)
        return m.where(degree > _LIMIT[x.type], NAN, _recurrence(m, degree, x * factor, step))

    return body


def laguerre(m: Any, x: Value, n: Value) -> Value:
    def step(k: Value, last: Value, before: Value) -> Value:
        return ((k * 2.0 + 1.0 - x) * last - k * before) / (k + 1.0)

    return _recurrence(m, m.trunc(n), 1.0 - x, step)


def legendre(m: Any, x: Value, n: Value) -> Value:
    def step(k: Value, last: Value, before: Value) -> Value:
        return ((k * 2.0 + 1.0) * x * last - k * before) / (k + 1.0)

    return _recurrence(m, m.trunc(n), x, step)


CHEBYSHEV = {
    "t": _chebyshev(lambda x: x, _even_multiple), "u": _chebyshev(lambda x: x * 2.0, _next_multiple),
    "v": _chebyshev(lambda x: x * 2.0 - 1.0, _half_cosine), "w": _chebyshev(lambda x: x * 2.0 + 1.0, _half_sine),
}  # fmt: skip
_LIMIT = {"f32": 128.0, "f64": 512.0}
POLYNOMIALS = {
    **{f"chebyshev_polynomial_{kind}": body for kind, body in CHEBYSHEV.items()},
    **{f"shifted_chebyshev_polynomial_{kind}": _shifted(body) for kind, body in CHEBYSHEV.items()},
    "hermite_polynomial_h": _hermite(2.0), "hermite_polynomial_he": _hermite(1.0),
    "laguerre_polynomial_l": laguerre, "legendre_polynomial_p": legendre,
}  # fmt: skip

register({"special_zeta": zeta, "polygamma": polygamma, "igamma": igamma, "igammac": igammac}, {})
