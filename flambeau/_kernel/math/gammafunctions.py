"""The logarithm of the gamma function and its derivative over real kernel values, in float64.

For results in float32 shorter polynomials are enough."""

from __future__ import annotations

import math
from typing import Any

from ..render.value import Value
from .exponentials import log, log_moderate
from .floats import polynomial
from .trigonometry import sinpi

INF, NAN = math.inf, math.nan

# lgamma(y) / ((y - 1)(y - 2)) as polynomial of y - 1.75 from 1 to 2.5; errors 2^-53, 2^-36
_LGAMMA = (
    0.4501393121092563, -0.11948158662524275, 0.0445204471985094, -0.019053957830247468, 0.008776370425278153,
    -0.0042261941259251826, 0.0020955338792270034, -0.0010605660750255446, 0.0005448970027228226,
    -0.0002831906284551155, 0.0001485166392785781, -7.846168505118195e-05, 4.17062600867438e-05,
    -2.2281843148574266e-05, 1.1945922043106498e-05, -6.435100066079365e-06, 3.516603054318647e-06,
    -1.9059273769225887e-06, 9.421669566036819e-07, -5.141853612848575e-07, 4.3502660626925655e-07,
    -2.3702514514582441e-07, -3.365725004136943e-08, 1.7791912623237962e-08, 9.121693328492633e-08,
    -5.00234105828692e-08,
)  # fmt: skip
_LGAMMA_SHORT = (
    0.45013931210708713, -0.11948158662406257, 0.04452044769147713, -0.019053958098450806, 0.008776352143366263,
    -0.004226184179792984, 0.002095790545642131, -0.001060705704211327, 0.000543142655370096,
    -0.00028223633868062695, 0.00015493879040747263, -8.195449759575476e-05, 2.9022694776062956e-05,
    -1.5385600720879015e-05, 2.4155065522341938e-05, -1.3069319910248643e-05,
)  # fmt: skip
# lgamma(x) = (x - 1/2)(log(x) - 1) + STIRLING_OFFSET + S(1/x^2)/x for x >= 8; errors 2^-57, 2^-39
_STIRLING = (
    0.08333333333333333, -0.00277777777775478, 0.0007936507750275294, -0.00059523248178388, 0.0008409555784120152,
    -0.0018607348446626716, 0.004426677784998579,
)  # fmt: skip
_STIRLING_SHORT = 0.0833333332646377, -0.002777698545179467, 0.0007800347181231656
_STIRLING_OFFSET = 0.4189385332046727  # (log(2 pi) - 1)/2
# digamma(y) / (y - root) as polynomial of y - 1.5 from 1 to 2; errors 2^-54, 2^-32
_DIGAMMA = (
    0.9510558760318328, -0.4236274212814606, 0.24054248424078692, -0.1484049230538804, 0.09498872445289962,
    -0.061922133275536424, 0.04076083394023539, -0.026975796657731657, 0.01790724833793661,
    -0.011908220153962375, 0.00792702139182493, -0.005279936584872769, 0.003518111509413606,
    -0.002345500588012701, 0.0015633309473686214, -0.001036426399434317, 0.0006911195124529543,
    -0.0004860579410884717, 0.0003233569663119523, -0.0001446052477097831, 9.759221996626091e-05,
    -0.00017837971922933274, 0.00011801479291596185,
)  # fmt: skip
_DIGAMMA_SHORT = (
    0.9510558760318328, -0.4236274186325623, 0.2405424824751142, -0.14840521855349975, 0.09498892142362683,
    -0.061912770922936004, 0.040754593297480844, -0.027101835424346757, 0.01799126155857759,
    -0.011096228103516554, 0.007385776781953944, -0.00769679044525289, 0.0051290832618366995,
)  # fmt: skip
_ROOT, _ROOT_LOW = 1.4616321449683622, 9.549995429965697e-17
# digamma(x) = log(x) - 1/(2x) - D(1/x^2)/x^2 for x >= 8; errors 2^-64, 2^-37
_DIGAMMA_FAR = (
    0.08333333333333316, -0.008333333333046321, 0.003968253806273322, -0.004166623281607937, 0.007569505286585979,
    -0.020590213344841145, 0.06155838273647271,
)  # fmt: skip


_DIGAMMA_FAR_SHORT = 0.08333333285681833, -0.008332783540522295, 0.003873588256162831


def _halves(m: Any, x: Value, coefficients: tuple[float, ...]) -> Value:
    """A long polynomial as two over the square, which do not wait for each other."""
    square = x * x
    return m.fma(polynomial(m, square, coefficients[1::2]), x, polynomial(m, square, coefficients[::2]))


def lgamma_positive(m: Any, x: Value, kind: str = "f64") -> Value:
    """log gamma(x) for positive float64 values; `kind` is the type of the result in the end."""
    near, stirling = (_LGAMMA_SHORT, _STIRLING_SHORT) if kind == "f32" else (_LGAMMA, _STIRLING)
    large = x >= 8.0
    product, y = m.constant(1.0, x), x
    for i in range(6):  # from 2.5 to 8 down to 1.5 to 2.5
        down = x >= 2.5 + i
        y = m.where(down, x - (1.0 + i), y)
        product = product * m.where(down, x - (1.0 + i), 1.0)
    below = x < 1.0  # lgamma(x) = lgamma(x + 1) - log(x)
    above_one = m.where(below, x, y - 1.0)
    shape = above_one * (above_one - 1.0) * _halves(m, above_one - 0.75, near)
    # a positive float32 is a normal float64
    logarithm = (log_moderate if kind == "f32" else log)(m, m.where(large | below, x, product))
    inverse = 1.0 / x
    series = m.fma(inverse, polynomial(m, inverse * inverse, stirling), _STIRLING_OFFSET)
    far = m.fma(x - 0.5, logarithm - 1.0, m.where(x < 1e17, series, 0.0))
    return m.where(large, far, shape + m.where(below, -logarithm, logarithm))


def lgamma(m: Any, given: Value) -> Value:
    """log |gamma(x)|."""
    x = m.cast(given, "f64")
    size = m.real_abs(x)
    right = lgamma_positive(m, size, given.type)

    def reflected() -> Value:  # gamma(x) gamma(-x) = -pi / (x sin(pi x))
        left = -log(m, m.real_abs(size * sinpi(m, size)) * (1.0 / math.pi)) - right
        left = m.where((m.floor(x) == x) | (size == INF), INF, m.where(size < 1e-17, right, left))
        return m.where(x == x, left, x)

    return m.cast(m.rare(~(x > 0.0), reflected, right), given.type)


def _digamma_positive(m: Any, x: Value, kind: str) -> Value:
    close, distant = (_DIGAMMA_SHORT, _DIGAMMA_FAR_SHORT) if kind == "f32" else (_DIGAMMA, _DIGAMMA_FAR)
    large = x >= 8.0
    top, bottom, y = m.constant(0.0, x), m.constant(1.0, x), x
    for i in range(6):  # digamma(y) = digamma(y - 1) + 1/(y - 1)
        down, below_it = x >= 2.0 + i, x - (1.0 + i)
        y = m.where(down, below_it, y)
        top = m.where(down, m.fma(top, below_it, bottom), top)
        bottom = m.where(down, bottom * below_it, bottom)
    below = x < 1.0
    top, bottom = m.where(below, -1.0, top), m.where(below, x, bottom)
    above = m.where(below, x + 1.0, y)
    near = ((above - _ROOT) - _ROOT_LOW) * _halves(m, above - 1.5, close)
    inverse = 1.0 / x
    square = inverse * inverse
    far = log(m, x) - m.fma(square, polynomial(m, square, distant), 0.5 * inverse)
    return m.where(large, far, near + top / bottom)


def digamma(m: Any, given: Value) -> Value:
    """The derivative of lgamma."""
    x = m.cast(given, "f64")
    size = m.real_abs(x)
    right = _digamma_positive(m, m.where(x < 0.0, size + 1.0, size), given.type)

    def reflected() -> Value:  # digamma(x) = digamma(1 - x) - pi / tan(pi x)
        rest = x - m.rint(x)
        left = right - math.pi * sinpi(m, rest + 0.5) / sinpi(m, rest)
        left = m.where((m.floor(x) == x) | (size == INF), NAN, left)
        result = m.where(x < 0.0, left, right)
        return m.where(x == 0.0, -m.copysign(m.constant(INF, x), x), result)

    return m.cast(m.rare(~(x > 0.0), reflected, right), given.type)


REAL: dict[str, Any] = {"lgamma": lgamma, "digamma": digamma}
