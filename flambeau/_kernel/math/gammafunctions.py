"""The logarithm of the gamma function and its derivative over real kernel values, in float64."""

from __future__ import annotations

import math
from typing import Any

from ..value import Value
from .errorfunctions import widened
from .exponentials import log
from .floats import polynomial
from .trigonometry import sinpi

INF, NAN = math.inf, math.nan

# lgamma(y) / ((y - 1)(y - 2)) as polynomial of y - 1.75 from 1 to 2.5; error 2^-53
_LGAMMA = (
    0.4501393121092563, -0.11948158662524275, 0.0445204471985094, -0.019053957830247468, 0.008776370425278153,
    -0.0042261941259251826, 0.0020955338792270034, -0.0010605660750255446, 0.0005448970027228226,
    -0.0002831906284551155, 0.0001485166392785781, -7.846168505118195e-05, 4.17062600867438e-05,
    -2.2281843148574266e-05, 1.1945922043106498e-05, -6.435100066079365e-06, 3.516603054318647e-06,
    -1.9059273769225887e-06, 9.421669566036819e-07, -5.141853612848575e-07, 4.3502660626925655e-07,
    -2.3702514514582441e-07, -3.365725004136943e-08, 1.7791912623237962e-08, 9.121693328492633e-08,
    -5.00234105828692e-08,
)  # fmt: skip
# lgamma(x) = (x - 1/2)(log(x) - 1) + STIRLING_OFFSET + S(1/x^2)/x for x >= 8; error 2^-57
_STIRLING = (
    0.08333333333333333, -0.00277777777775478, 0.0007936507750275294, -0.00059523248178388, 0.0008409555784120152,
    -0.0018607348446626716, 0.004426677784998579,
)  # fmt: skip
_STIRLING_OFFSET = 0.4189385332046727  # (log(2 pi) - 1)/2
# digamma(y) / (y - root) as polynomial of y - 1.5 from 1 to 2; error 2^-54
_DIGAMMA = (
    0.9510558760318328, -0.4236274212814606, 0.24054248424078692, -0.1484049230538804, 0.09498872445289962,
    -0.061922133275536424, 0.04076083394023539, -0.026975796657731657, 0.01790724833793661,
    -0.011908220153962375, 0.00792702139182493, -0.005279936584872769, 0.003518111509413606,
    -0.002345500588012701, 0.0015633309473686214, -0.001036426399434317, 0.0006911195124529543,
    -0.0004860579410884717, 0.0003233569663119523, -0.0001446052477097831, 9.759221996626091e-05,
    -0.00017837971922933274, 0.00011801479291596185,
)  # fmt: skip
_ROOT, _ROOT_LOW = 1.4616321449683622, 9.549995429965697e-17
# digamma(x) = log(x) - 1/(2x) - D(1/x^2)/x^2 for x >= 8; error 2^-64
_DIGAMMA_FAR = (
    0.08333333333333316, -0.008333333333046321, 0.003968253806273322, -0.004166623281607937, 0.007569505286585979,
    -0.020590213344841145, 0.06155838273647271,
)  # fmt: skip


def lgamma_positive(m: Any, x: Value) -> Value:
    """log gamma(x) for positive float64 values."""
    large = x >= 8.0
    product, y = m.constant(1.0, x), x
    for _ in range(6):  # from 2.5 to 8 down to 1.5 to 2.5
        down = (y >= 2.5) & ~large
        y = m.where(down, y - 1.0, y)
        product = m.where(down, product * y, product)
    below = x < 1.0  # lgamma(x) = lgamma(x + 1) - log(x)
    above_one = m.where(below, x, y - 1.0)
    shape = above_one * (above_one - 1.0) * polynomial(m, above_one - 0.75, _LGAMMA)
    logarithm = log(m, m.where(large | below, x, product))
    inverse = 1.0 / x
    series = m.fma(inverse, polynomial(m, inverse * inverse, _STIRLING), _STIRLING_OFFSET)
    far = m.fma(x - 0.5, logarithm - 1.0, m.where(x < 1e17, series, 0.0))
    return m.where(large, far, shape + m.where(below, -logarithm, logarithm))


@widened
def lgamma(m: Any, x: Value) -> Value:
    """log |gamma(x)|."""
    size = m.real_abs(x)
    right = lgamma_positive(m, size)

    def reflected() -> Value:  # gamma(x) gamma(-x) = -pi / (x sin(pi x))
        left = -log(m, m.real_abs(size * sinpi(m, size)) * (1.0 / math.pi)) - right
        left = m.where((m.floor(x) == x) | (size == INF), INF, m.where(size < 1e-17, right, left))
        return m.where(x == x, left, x)

    return m.rare(~(x > 0.0), reflected, right)


def _digamma_positive(m: Any, x: Value) -> Value:
    large = x >= 8.0
    top, bottom, y = m.constant(0.0, x), m.constant(1.0, x), x
    for _ in range(6):  # digamma(y) = digamma(y - 1) + 1/(y - 1)
        down = (y >= 2.0) & ~large
        y = m.where(down, y - 1.0, y)
        top = m.where(down, m.fma(top, y, bottom), top)
        bottom = m.where(down, bottom * y, bottom)
    below = x < 1.0
    top, bottom = m.where(below, -1.0, top), m.where(below, x, bottom)
    above = m.where(below, x + 1.0, y)
    near = ((above - _ROOT) - _ROOT_LOW) * polynomial(m, above - 1.5, _DIGAMMA)
    inverse = 1.0 / x
    square = inverse * inverse
    far = log(m, x) - m.fma(square, polynomial(m, square, _DIGAMMA_FAR), 0.5 * inverse)
    return m.where(large, far, near + top / bottom)


@widened
def digamma(m: Any, x: Value) -> Value:
    """The derivative of lgamma."""
    size = m.real_abs(x)
    right = _digamma_positive(m, m.where(x < 0.0, size + 1.0, size))

    def reflected() -> Value:  # digamma(x) = digamma(1 - x) - pi / tan(pi x)
        rest = x - m.rint(x)
        left = right - math.pi * sinpi(m, rest + 0.5) / sinpi(m, rest)
        left = m.where((m.floor(x) == x) | (size == INF), NAN, left)
        result = m.where(x < 0.0, left, right)
        return m.where(x == 0.0, -m.copysign(m.constant(INF, x), x), result)

    return m.rare(~(x > 0.0), reflected, right)


REAL: dict[str, Any] = {"lgamma": lgamma, "digamma": digamma}
