"""How samples of the gamma and beta distributions move with their parameters, over kernel values.

A sample x with distribution function F(x; a) moves by -(dF/da) / (dF/dx) if its random cause stays the same. Both
forms below are sums whose parts have one sign, so that nothing cancels; the derivatives by the parameters are
carried along through the series and continued fractions of the distribution functions.
"""

from __future__ import annotations

from typing import Any

from ..render.symbols import register
from ..render.value import Value
from .errorfunctions import widened
from .floats import polynomial

_EPSILON = 2.0**-52
_TINY = 1e-300
_STEPS = 1 << 17

# -- gamma ---------------------------------------------------------------------------------------------------------


def _below_mean(m: Any, a: Value, x: Value) -> Value:
    """From the power series of the lower incomplete gamma function, for x up to about a."""

    def step(i: Value, total: Value, slope: Value, term: Value, change: Value, r: Value) -> Any:
        r = r + 1.0
        term, change = term * (x / r), change + 1.0 / r
        return total + term, slope + term * change, term, change, r

    first = 1.0 / a
    total, slope, *_ = m.repeat(
        _STEPS, (first, first * first, first, first, a), step,
        going=lambda total, slope, term, change, r: term * change > slope * _EPSILON,
    )  # fmt: skip
    return x * (total * (m.digamma(a) - m.log(x)) + slope)


def _above_mean(m: Any, a: Value, x: Value) -> Value:
    """From the continued fraction of the upper incomplete gamma function, for x above a + 1."""
    b = x + 1.0 - a

    def step(i: Value, h: Value, slope: Value, c: Value, dc: Value, d: Value, dd: Value, change: Value) -> Any:
        k = m.cast(i, "f64") + 1.0
        top, bottom = k * (a - k), b + k * 2.0
        over, under = bottom + top / c, m.fma(top, d, bottom)
        over = m.where(m.real_abs(over) < _TINY, _TINY, over)
        under = m.where(m.real_abs(under) < _TINY, _TINY, under)
        d_over = (k - top * (dc / c)) / c - 1.0
        d_under = m.fma(top, dd, k * d) - 1.0
        d = 1.0 / under
        dd = -d_under * d * d
        more = d_over / over - d_under * d
        settled = m.real_abs(over * d - 1.0) + m.real_abs(more) / (m.real_abs(slope) + _TINY)
        return h * (over * d), slope + more, over, d_over, d, dd, settled

    zero = m.constant(0.0, x)
    d = 1.0 / b
    h, slope, *_ = m.repeat(
        _STEPS, (d, d, m.constant(1.0 / _TINY, x), zero, d, d * d, m.constant(1.0, x)), step,
        going=lambda h, slope, c, dc, d, dd, settled: settled > _EPSILON * 4.0,
    )  # fmt: skip
    return x * h * (m.log(x) - m.digamma(a) + slope)


# Cornish and Fisher: a gamma quantile is a sum of polynomials of the normal quantile z over powers of sqrt(a).
_QUANTILE = (
    (1, (0.0, 1.0)),
    (0, (-1 / 3, 0.0, 1 / 3)),
    (-1, (0.0, -7 / 36, 0.0, 1 / 36)),
    (-2, (16 / 810, 0.0, -7 / 810, 0.0, -3 / 810)),
    (-3, (0.0, -433 / 38880, 0.0, 256 / 38880, 0.0, 9 / 38880)),
    (-4, (1472 / 204120, 0.0, -923 / 204120, 0.0, -243 / 204120, 0.0, 12 / 204120)),
)
_LARGE = 1e4


def _near_mean(m: Any, a: Value, x: Value) -> Value:
    """From the expansion of the quantile, for large a and x within some deviations of it."""
    root = m.real_sqrt(a)
    z = (m.pow(x / a, m.constant(1 / 3, x)) - 1.0 + 1.0 / (9.0 * a)) * 3.0 * root  # Wilson and Hilferty
    for _ in range(3):  # Newton
        quantile, rate = a, m.constant(0.0, x)
        for power, row in _QUANTILE:
            scale = _power(root, power)
            quantile = quantile + polynomial(m, z, row) * scale
            rate = rate + polynomial(m, z, tuple(i * c for i, c in enumerate(row))[1:]) * scale
        z = z - (quantile - x) / rate
    result = m.constant(1.0, x)
    for power, row in _QUANTILE:
        if power:
            result = result + polynomial(m, z, row) * (0.5 * power) * _power(root, power - 2)
    return result


def _power(root: Value, power: int) -> Any:
    value: Any = 1.0
    for _ in range(abs(power)):
        value = value * root
    return 1.0 / value if power < 0 else value


@widened
def standard_gamma_grad(m: Any, a: Value, x: Value) -> Value:
    """dx/da of a sample x of the standard gamma distribution of shape a."""
    valid = (a > 0.0) & (x > 0.0) & (a < 1e300) & (x < 1e300)
    safe_a, safe_x = m.where(valid, a, 1.0), m.where(valid, x, 1.0)
    distance = safe_x - safe_a
    near = (safe_a > _LARGE) & (distance * distance < safe_a * 64.0)
    below = safe_x < safe_a + 1.0
    # elements that another form serves enter a loop with values that end it soon
    small = m.where(near, 1.0, safe_a)
    lower = _below_mean(m, small, m.where(below & ~near, safe_x, 0.5))
    upper = _above_mean(m, small, m.where(below | near, small + 20.0, safe_x))
    middle = _near_mean(m, m.where(near, safe_a, _LARGE), m.where(near, safe_x, _LARGE))
    result = m.where(near, middle, m.where(below, lower, upper))
    return m.where(valid, result, m.where((x == 0.0) & (a > 0.0), 0.0, a * x * 0.0))


# -- beta ----------------------------------------------------------------------------------------------------------


@widened
def dirichlet_grad(m: Any, x: Value, a: Value, total: Value) -> Value:
    """dx/da / (1 - x) of a sample x of the beta distribution of a and total - a, where total - a is fixed."""
    b = total - a
    valid = (a > 0.0) & (b > 0.0) & (x > 0.0) & (x < 1.0) & (total < 1e300)
    a, b, total = m.where(valid, a, 1.0), m.where(valid, b, 1.0), m.where(valid, total, 2.0)
    inside = m.where(valid, x, 0.5)
    # I(x; a, b) below its mean, 1 - I(1 - x; b, a) above it
    above = inside * (total + 2.0) >= a + 1.0
    p, q, z = m.where(above, b, a), m.where(above, a, b), m.where(above, 1.0 - inside, inside)
    by_p, by_q = m.where(above, 0.0, 1.0), m.where(above, 1.0, 0.0)

    def link(top: Value, d_top: Value, c: Value, dc: Value, d: Value, dd: Value) -> Any:
        """One division of the continued fraction 1 + top / (1 + …), and of its derivative."""
        over, under = 1.0 + top / c, 1.0 + top * d
        over = m.where(m.real_abs(over) < _TINY, _TINY, over)
        under = m.where(m.real_abs(under) < _TINY, _TINY, under)
        d_over = (d_top - top * (dc / c)) / c
        d_under = m.fma(top, dd, d_top * d)
        d = 1.0 / under
        return over, d_over, d, -d_under * d * d, d_over / over - d_under * d

    def step(i: Value, h: Value, slope: Value, c: Value, dc: Value, d: Value, dd: Value, settled: Value) -> Any:
        k = m.cast(i, "f64") + 1.0
        r = p + k * 2.0
        scale = k * z / ((r - 1.0) * r)
        top = scale * (q - k)
        d_top = scale * (by_q - (q - k) * by_p * (1.0 / (r - 1.0) + 1.0 / r))
        c, dc, d, dd, first = link(top, d_top, c, dc, d, dd)
        factor = c * d
        top = -((p + k) * (total + k) * z) / (r * (r + 1.0))
        d_top = top * (1.0 / (total + k) + by_p * (1.0 / (p + k) - 1.0 / r - 1.0 / (r + 1.0)))
        c, dc, d, dd, second = link(top, d_top, c, dc, d, dd)
        more = first + second
        settled = m.real_abs(c * d - 1.0) + m.real_abs(more) / (m.real_abs(slope) + _TINY)
        return h * (factor * c * d), slope + more, c, dc, d, dd, settled

    one, zero = m.constant(1.0, x), m.constant(0.0, x)
    start = 1.0 - total * z / (p + 1.0)
    d = 1.0 / m.where(m.real_abs(start) < _TINY, _TINY, start)
    d_start = -z / (p + 1.0) * (1.0 - by_p * total / (p + 1.0))
    h, slope, *_ = m.repeat(
        _STEPS, (d, -d_start * d - by_p / p, one, zero, d, -d_start * d * d, one), step,
        going=lambda h, slope, c, dc, d, dd, settled: settled > _EPSILON * 4.0,
    )  # fmt: skip
    moved = m.log(inside) + m.digamma(total) - m.digamma(a) + slope
    result = inside * (h / p) * m.where(above, moved, -moved)
    return m.where(valid, result, m.where((x >= 0.0) & (x <= 1.0), 0.0, x * a * b * m.constant(float("nan"), x)))


register({"standard_gamma_grad": standard_gamma_grad, "dirichlet_grad": dirichlet_grad}, {})
