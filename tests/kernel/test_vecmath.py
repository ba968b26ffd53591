"""Measures every elementary function in units in the last place against mpmath, and checks its special cases."""

import functools
import math

import mpmath
import numpy as np
import pytest

from flambeau._kernel.loops.pointwise import pointwise_ufunc
from flambeau._kernel.math import vecmath

mpmath.mp.prec = 160
INF, NAN = math.inf, math.nan
DTYPE = {"f32": np.dtype("f4"), "f64": np.dtype("f8"), "c64": np.dtype("c8"), "c128": np.dtype("c16")}
BIG = {"f32": 3e38, "f64": 1.7e308}


@functools.cache
def ufunc(name, type, arguments=1, result=None):
    table = vecmath.COMPLEX if type[0] == "c" else vecmath.REAL
    types = [type] * arguments
    return pointwise_ufunc(name, table[name], types, [result or type], types)


def ulps(value, exact, dtype):
    """The distance of a float from the exact value, in spacings of floats there."""
    info = np.finfo(dtype)
    if not np.isfinite(value):
        limit = mpmath.mpf(float(info.max)) * (1 - mpmath.mpf(2) ** (-info.nmant))
        return 0.0 if np.isinf(value) and abs(exact) > limit and (value > 0) == (exact > 0) else INF
    exponent = info.minexp
    if exact != 0:
        exponent = max(exponent, int(mpmath.floor(mpmath.log(abs(exact), 2))))
    return float(abs(mpmath.mpf(float(value)) - exact) / mpmath.mpf(2) ** (exponent - info.nmant))


def spread(low, high, dtype, count=120):
    """Points spread evenly, and evenly in the logarithm, down to subnormal ones."""
    draw = np.random.default_rng(0)
    parts = [draw.uniform(low / 2, high / 2, count) + draw.uniform(low / 2, high / 2, count)]
    smallest = math.log10(float(np.finfo(dtype).smallest_subnormal))
    for sign, bound in ((1, high), (-1, -low)):
        if bound > 0:
            parts.append(sign * 10 ** draw.uniform(smallest, math.log10(bound), count))
            parts.append(sign * 10 ** draw.uniform(-4, math.log10(bound), count))
    with np.errstate(all="ignore"):
        x = np.concatenate(parts).astype(dtype)
    return x[(x >= low) & (x <= high)]


def normal(x):
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def log_normal(x):
    return mpmath.log(normal(x)) if x < 3 else mpmath.log1p(-normal(-x))


def scaled_erfc(x):
    return mpmath.exp(x * x) * mpmath.erfc(x)


def log_sigmoid(x):
    return -mpmath.log1p(mpmath.exp(-x)) if x > -100 else x - mpmath.exp(x)


def inverse_normal(p):
    """Newton's method on the logarithm of the distribution function."""
    if p > 0.5:
        return -inverse_normal(1 - p)
    x = -mpmath.sqrt(-2 * mpmath.log(p)) if p < 0.1 else mpmath.mpf(0)
    for _ in range(60):
        f = normal(x)
        step = (mpmath.log(f) - mpmath.log(p)) * f * mpmath.sqrt(2 * mpmath.pi) * mpmath.exp(x * x / 2)
        x -= step
        if abs(step) < mpmath.mpf(10) ** -40:
            break
    return x


# name: exact function, allowed error in ulp, range (per type where they differ)
BOTH = {
    "exp": (mpmath.exp, 1.0, {"f32": (-104, 88.7), "f64": (-745, 709.7)}),
    "exp2": (lambda x: mpmath.mpf(2) ** x, 1.0, {"f32": (-150, 127.9), "f64": (-1075, 1023.9)}),
    "expm1": (mpmath.expm1, 1.3, {"f32": (-104, 88.7), "f64": (-745, 709.7)}),
    "sigmoid": (lambda x: 1 / (1 + mpmath.exp(-x)), 1.8, {"f32": (-103, 100), "f64": (-740, 700)}),
    "sinh": (mpmath.sinh, 1.8, {"f32": (-89.4, 89.4), "f64": (-710, 710)}),
    "cosh": (mpmath.cosh, 1.6, {"f32": (-89.4, 89.4), "f64": (-710, 710)}),
    "tanh": (mpmath.tanh, 2.2, (-25, 25)),
    "log": (mpmath.log, 1.0, {t: (1e-50 if t == "f32" else 1e-320, BIG[t]) for t in BIG}),
    "log2": (lambda x: mpmath.log(x) / mpmath.log(2), 1.0, {t: (1e-44, BIG[t]) for t in BIG}),
    "log10": (mpmath.log10, 1.0, {t: (1e-44, BIG[t]) for t in BIG}),
    "log1p": (mpmath.log1p, 1.0, {t: (-0.999, BIG[t]) for t in BIG}),
    "asinh": (mpmath.asinh, 1.5, {t: (-BIG[t], BIG[t]) for t in BIG}),
    "acosh": (mpmath.acosh, 1.5, {t: (1, BIG[t]) for t in BIG}),
    "atanh": (mpmath.atanh, 2.0, (-0.9999, 0.9999)),
    "log_sigmoid": (log_sigmoid, 1.5, {"f32": (-1000, 100), "f64": (-1000, 700)}),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), 1.6, (1e-30, 1e30)),
    "sin": (mpmath.sin, 1.6, (-1000, 1000)),
    "cos": (mpmath.cos, 1.6, (-1000, 1000)),
    "tan": (mpmath.tan, 2.2, (-1000, 1000)),
    "sinpi": (lambda x: mpmath.sinpi(x), 1.6, (-1000, 1000)),
    "sinc": (mpmath.sincpi, 2.2, (-1000, 1000)),
    "asin": (mpmath.asin, 2.0, (-1, 1)),
    "acos": (mpmath.acos, 1.3, (-1, 1)),
    "atan": (mpmath.atan, 1.2, {t: (-BIG[t], BIG[t]) for t in BIG}),
    "erf": (mpmath.erf, 1.2, (-7, 7)),
    "erfc": (mpmath.erfc, 2.2, {"f32": (-5, 10.1), "f64": (-7, 27.2)}),
    "erfcx": (scaled_erfc, 2.2, {"f32": (-9.3, 100), "f64": (-26.6, 100)}),
    "erfinv": (mpmath.erfinv, 2.8, (-0.99999, 0.99999)),
    "ndtr": (normal, 2.2, {"f32": (-14.1, 8), "f64": (-38.4, 9)}),
    "log_ndtr": (log_normal, 2.5, (-100, 13)),
    "ndtri": (inverse_normal, 2.5, (1e-37, 0.99999)),
    "lgamma": (mpmath.loggamma, 2.5, (1e-30, 1e30)),
    "digamma": (mpmath.digamma, 2.0, (1e-30, 1e30)),
}


@pytest.mark.parametrize("type", ["f32", "f64"])
@pytest.mark.parametrize("name", BOTH)
def test_error(name, type):
    exact, allowed, bounds = BOTH[name]
    low, high = bounds[type] if isinstance(bounds, dict) else bounds
    few = 25 if name in ("erfinv", "ndtri") else 120
    x = spread(low, high, DTYPE[type], few)
    y = ufunc(name, type)(x)
    errors = [ulps(b, exact(mpmath.mpf(float(a))), DTYPE[type]) for a, b in zip(x, y)]
    worst = int(np.argmax(errors))
    assert errors[worst] <= allowed, f"{errors[worst]:.2f} ulp at {x[worst]!r}"


@pytest.mark.parametrize("type", ["f32", "f64"])
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_large_angles(name, type):
    with mpmath.workprec(1400):
        x = spread(1.0, BIG[type], DTYPE[type], 150)
        # the float64 nearest to a multiple of pi/2
        x = np.append(x, np.array([6381956970095103.0 * 2.0**797 if type == "f64" else 16367173.0 * 2.0**72], x.dtype))
        y = ufunc(name, type)(x)
        exact = getattr(mpmath, name)
        errors = [ulps(b, exact(mpmath.mpf(float(a))), DTYPE[type]) for a, b in zip(x, y)]
    assert max(errors) <= 2.2


@pytest.mark.parametrize("type", ["f32", "f64"])
def test_rare_elements_among_others(type):
    sin = ufunc("sin", type)
    x = np.linspace(-50, 50, 10_000).astype(DTYPE[type])
    plain = sin(x)
    x[[5000, 9999]] = 1e25
    mixed = sin(x)
    strided = sin(np.repeat(x, 3)[::3])
    np.testing.assert_array_equal(np.delete(mixed, [5000, 9999]), np.delete(plain, [5000, 9999]))
    np.testing.assert_array_equal(strided, mixed)
    assert mixed[5000] == mixed[9999] == pytest.approx(math.sin(float(x[5000])), rel=1e-6)
    sin(x, out=x)
    np.testing.assert_array_equal(x, mixed)


@pytest.mark.parametrize("name, extreme", [("exp", -INF), ("sigmoid", 200.0), ("sin", 1e25)])
def test_extreme_elements_leave_others_right(name, extreme):
    f, exact, allowed = ufunc(name, "f32"), *BOTH[name][:2]
    for place in (3, 600, 1499):
        x = np.linspace(0.1, 20, 1500).astype("f4")
        x[place] = extreme
        y = f(x)
        few = np.delete(np.arange(1500), place)[::20]
        assert max(ulps(y[i], exact(mpmath.mpf(float(x[i]))), x.dtype) for i in few) <= allowed
        assert ulps(y[place], exact(mpmath.mpf(float(x[place]))), x.dtype) <= allowed


@pytest.mark.parametrize("name", ["tanh", "ndtr_quick", "erf"])
def test_length_and_strides_do_not_matter(name):
    f = ufunc(name, "f32")
    x = np.linspace(-4, 4, 700).astype("f4")
    whole = f(x)
    for n in (0, 1, 15, 63, 64, 65, 191, 257):
        np.testing.assert_array_equal(f(x[3 : 3 + n]), whole[3 : 3 + n])
    np.testing.assert_array_equal(f(x[::3]), whole[::3])


def test_tanh_is_odd_and_never_beyond_one():
    x = np.concatenate([np.linspace(0, 25, 200_001), np.geomspace(1e-44, 1, 100_001)]).astype("f4")
    y = ufunc("tanh", "f32")(x)
    np.testing.assert_array_equal(ufunc("tanh", "f32")(-x), -y)
    assert y.max() == 1.0 and (y <= x).all()
    exact = np.tanh(x.astype("f8"))
    assert (np.abs(y - exact) <= 2.2 * np.spacing(exact.astype("f4"))).all()


def test_quick_normal_distribution():
    x = np.linspace(-6, 6, 20_001).astype("f4")
    y = ufunc("ndtr_quick", "f32")(x).astype("f8")
    exact = np.array([0.5 * math.erfc(-float(v) / math.sqrt(2)) for v in x])
    assert np.abs(y - exact).max() < 1e-7
    assert (np.abs(y - exact) / exact)[x < 0].max() < 5e-6
    check("ndtr_quick", [(-40.0, 0.0), (40.0, 1.0), (-3e38, 0.0), (3e38, 1.0), (INF, 1.0), (-INF, 0.0), (NAN, NAN)])


def test_sine_and_cosine_never_exceed_one():
    x = np.concatenate([np.linspace(k - 0.01, k + 0.01, 20_001) for k in np.arange(0, 40) * (math.pi / 2)]).astype("f4")
    for name in ("sin", "cos"):
        assert np.abs(ufunc(name, "f32")(x)).max() == 1.0


TWO = {"pow": (lambda x, y: x**y, 1.0), "hypot": (mpmath.hypot, 1.5), "atan2": (mpmath.atan2, 1.8)}


@pytest.mark.parametrize("type", ["f32", "f64"])
@pytest.mark.parametrize("name", TWO)
def test_error_of_two(name, type):
    exact, allowed = TWO[name]
    draw = np.random.default_rng(1)
    x, y = np.exp(draw.normal(size=(2, 300)) * 3)
    if name == "pow":
        y = draw.uniform(-1, 1, 300) * {"f32": 87, "f64": 707}[type] / np.abs(np.log(x))
    x, y = x.astype(DTYPE[type]), y.astype(DTYPE[type])
    z = ufunc(name, type, 2)(x, y)
    pairs = [(mpmath.mpf(float(a)), mpmath.mpf(float(b))) for a, b in zip(x, y)]
    assert max(ulps(c, exact(a, b), DTYPE[type]) for (a, b), c in zip(pairs, z)) <= allowed


def test_hypot_neither_overflows_nor_underflows():
    hypot = ufunc("hypot", "f64", 2)
    assert hypot(3e300, 4e300) == pytest.approx(5e300)
    assert hypot(3e-310, 4e-310) == pytest.approx(5e-310, rel=1e-12)
    assert hypot(5e-324, 0.0) == 5e-324
    assert hypot(NAN, INF) == INF and np.isnan(hypot(NAN, 1.0))
    assert hypot(0.0, -0.0) == 0.0


def check(name, pairs):
    for type in ("f32", "f64"):
        x = np.array([a for a, _ in pairs], DTYPE[type])
        expected = np.array([b for _, b in pairs], DTYPE[type])
        y = ufunc(name, type)(x)
        np.testing.assert_array_equal(y, expected, err_msg=name)
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(y[numbers]), np.signbit(expected[numbers]), err_msg=name)


@pytest.mark.parametrize(
    "name", ["sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "expm1", "log1p", "erf", "erfinv", "sinpi"]
)
def test_odd_functions_keep_zeros_and_subnormals(name):
    tiny = {"sinpi": [], "erf": [], "erfinv": []}.get(name, [(1e-44, 1e-44), (-1e-44, -1e-44)])
    check(name, [(0.0, 0.0), (-0.0, -0.0), (NAN, NAN), *tiny])


def test_special_values():
    check("exp", [(INF, INF), (-INF, 0.0), (NAN, NAN), (0.0, 1.0), (1000.0, INF), (-1000.0, 0.0)])
    check("exp2", [(INF, INF), (-INF, 0.0), (NAN, NAN), (3.0, 8.0), (-1.0, 0.5)])
    check("expm1", [(INF, INF), (-INF, -1.0), (1000.0, INF)])
    check("sigmoid", [(INF, 1.0), (-INF, 0.0), (NAN, NAN), (0.0, 0.5)])
    check("log", [(0.0, -INF), (-0.0, -INF), (-1.0, NAN), (INF, INF), (-INF, NAN), (NAN, NAN), (1.0, 0.0)])
    check("log2", [(0.0, -INF), (8.0, 3.0), (0.125, -3.0), (INF, INF), (-1.0, NAN)])
    check("log10", [(0.0, -INF), (1000.0, 3.0), (1e-3, np.float32(-3)), (INF, INF)])
    check("log1p", [(-1.0, -INF), (-2.0, NAN), (-1.5, NAN), (INF, INF), (-INF, NAN), (NAN, NAN)])
    check("sinh", [(INF, INF), (-INF, -INF), (1000.0, INF)])
    check("cosh", [(INF, INF), (-INF, INF), (0.0, 1.0), (NAN, NAN)])
    check("tanh", [(INF, 1.0), (-INF, -1.0)])
    check("asinh", [(INF, INF), (-INF, -INF)])
    check("acosh", [(1.0, 0.0), (0.5, NAN), (INF, INF), (-INF, NAN), (NAN, NAN)])
    check("atanh", [(1.0, INF), (-1.0, -INF), (2.0, NAN)])
    check("sin", [(INF, NAN), (-INF, NAN)])
    check("cos", [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (NAN, NAN)])
    check("asin", [(2.0, NAN), (INF, NAN)])
    check("acos", [(1.0, 0.0), (2.0, NAN), (NAN, NAN)])
    check("atan", [(INF, math.pi / 2), (-INF, -math.pi / 2)])
    check("erf", [(INF, 1.0), (-INF, -1.0)])
    check("erfc", [(INF, 0.0), (-INF, 2.0), (NAN, NAN), (0.0, 1.0)])
    check("erfcx", [(INF, 0.0), (-INF, INF), (NAN, NAN), (0.0, 1.0)])
    check("erfinv", [(1.0, INF), (-1.0, -INF), (2.0, NAN)])
    check("ndtr", [(INF, 1.0), (-INF, 0.0), (NAN, NAN), (0.0, 0.5)])
    check("log_ndtr", [(-INF, -INF), (NAN, NAN)])
    check("ndtri", [(0.0, -INF), (1.0, INF), (-1.0, NAN), (2.0, NAN), (NAN, NAN), (0.5, 0.0)])
    check("lgamma", [(0.0, INF), (-1.0, INF), (INF, INF), (-INF, INF), (NAN, NAN), (1.0, 0.0), (2.0, 0.0)])
    check("digamma", [(0.0, -INF), (-0.0, INF), (-1.0, NAN), (INF, INF), (NAN, NAN)])
    check("sinc", [(0.0, 1.0), (INF, NAN)])
    check("sign", [(2.0, 1.0), (-0.5, -1.0), (0.0, 0.0), (NAN, 0.0)])


def test_power_follows_the_standard():
    values = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, 0.5, -0.5, INF, -INF, NAN, 1e30, -2.5, 1e-3, -1e-3]
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    for type in ("f32", "f64"):
        a, b = x.astype(DTYPE[type]), y.astype(DTYPE[type])
        with np.errstate(all="ignore"):
            expected = np.power(a.astype("f8"), b.astype("f8")).astype(DTYPE[type])
            result = ufunc("pow", type, 2)(a, b)
        np.testing.assert_allclose(result, expected, rtol=2e-7)
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(result[numbers]), np.signbit(expected[numbers]))


def test_power_of_integers_is_exact():
    base, exponent = np.meshgrid(np.arange(1.0, 12.0), np.arange(0.0, 8.0))
    expected = np.array([[float(int(b) ** int(e)) for b, e in zip(*rows)] for rows in zip(base, exponent)])
    np.testing.assert_array_equal(ufunc("pow", "f64", 2)(base, exponent), expected)


def test_atan2_quadrants():
    values = [0.0, -0.0, 1.0, -1.0, INF, -INF, 2.0, 1e-300]
    y, x = (v.ravel() for v in np.meshgrid(values, values))
    result = ufunc("atan2", "f64", 2)(y, x)
    np.testing.assert_allclose(result, np.arctan2(y, x), rtol=3e-16)
    np.testing.assert_array_equal(np.signbit(result), np.signbit(np.arctan2(y, x)))
    assert np.isnan(ufunc("atan2", "f64", 2)(NAN, 1.0))


def test_bits():
    for type in ("f32", "f64"):
        x = np.array([0.0, -0.0, 1.0, -1.0, 1.5, 1e-44, INF, -3.0, 0.1], DTYPE[type])
        for target in (INF, -INF, 0.0):
            y = np.full_like(x, target)
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(ufunc("nextafter", type, 2)(x, y), np.nextafter(x, y))
        mantissa, exponent = np.frexp(x)
        finite = np.isfinite(x)
        np.testing.assert_array_equal(ufunc("frexp_mantissa", type)(x), mantissa)
        np.testing.assert_array_equal(ufunc("frexp_exponent", type, 1, "i32")(x)[finite], exponent[finite])


def test_integers_and_signs():
    integer = pointwise_ufunc("abs", vecmath.REAL["abs"], ["i32"], ["i32"], ["i32"])
    np.testing.assert_array_equal(integer(np.array([-3, 0, 4], "i4")), [3, 0, 4])
    sign = pointwise_ufunc("sign", vecmath.REAL["sign"], ["i64"], ["i64"], ["i64"])
    np.testing.assert_array_equal(sign(np.array([-3, 0, 4])), [-1, 0, 1])
    signbit = pointwise_ufunc("signbit", vecmath.REAL["signbit"], ["f32"], ["b1"], ["f32"])
    np.testing.assert_array_equal(signbit(np.array([-0.0, 0.0, -1.0], "f4")), [True, False, True])


COMPLEX = {
    "exp": mpmath.exp, "exp2": lambda z: mpmath.mpf(2) ** z, "expm1": lambda z: mpmath.exp(z) - 1,
    "log": mpmath.log, "log2": lambda z: mpmath.log(z) / mpmath.log(2),
    "log10": lambda z: mpmath.log(z) / mpmath.log(10), "log1p": lambda z: mpmath.log(1 + z), "sqrt": mpmath.sqrt,
    "rsqrt": lambda z: 1 / mpmath.sqrt(z), "sin": mpmath.sin, "cos": mpmath.cos, "tan": mpmath.tan,
    "sinh": mpmath.sinh, "cosh": mpmath.cosh, "tanh": mpmath.tanh, "asin": mpmath.asin, "acos": mpmath.acos,
    "atan": mpmath.atan, "asinh": mpmath.asinh, "acosh": mpmath.acosh, "atanh": mpmath.atanh,
    "sigmoid": lambda z: 1 / (1 + mpmath.exp(-z)), "reciprocal": lambda z: 1 / z,
    "sgn": lambda z: z / abs(z),
}  # fmt: skip


@pytest.mark.parametrize("type", ["c64", pytest.param("c128", marks=pytest.mark.slow)])  # of the same formulas
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_error(name, type):
    draw = np.random.default_rng(2)
    scales = np.repeat([1.0, 1e-3, 3.0], 60)
    z = ((draw.normal(size=180) + 1j * draw.normal(size=180)) * scales).astype(DTYPE[type])
    result = ufunc(name, type)(z)
    unit = float(np.finfo(DTYPE[type]).eps) / 2
    for a, b in zip(z, result):
        exact = COMPLEX[name](mpmath.mpc(complex(a)))
        error = float(abs(mpmath.mpc(complex(b)) - exact) / abs(exact)) / unit
        assert error < 8 + 12 * (name == "sigmoid"), f"{error:.1f} at {a!r}"


def test_complex_special_values():
    def value(name, z):
        return ufunc(name, "c128")(complex(z))

    def same(a, b):
        np.testing.assert_array_equal(np.array([a.real, a.imag]), [b.real, b.imag])

    same(value("exp", complex(INF, 0)), complex(INF, 0))
    same(value("exp", complex(-INF, NAN)), complex(0, 0))
    same(value("exp", complex(INF, NAN)), complex(INF, NAN))
    same(value("log", 0), complex(-INF, 0))
    same(value("log", complex(-INF, INF)), complex(INF, 0.75 * math.pi))
    same(value("sqrt", -4), 2j)
    same(value("sqrt", complex(-4, -0.0)), -2j)
    same(value("sqrt", complex(NAN, INF)), complex(INF, INF))
    same(value("sqrt", complex(-INF, 1)), complex(0, INF))
    same(value("tanh", complex(INF, 1)), complex(1, 0))
    same(value("reciprocal", complex(INF, 0)), complex(0, 0))
    same(value("reciprocal", 0), complex(INF, NAN))
    same(value("acosh", 0.5), complex(0, math.acos(0.5)))
    same(value("atanh", 2), complex(0.5493061443340549, math.pi / 2))
    assert abs(value("sqrt", complex(1e308, 1e308)) - 1.09868411346781e154 - 4.550898605622274e153j) < 1e140
    size = pointwise_ufunc("abs", vecmath.COMPLEX["abs"], ["c128"], ["f64"], ["c128"])
    assert size(complex(3e300, -4e300)) == pytest.approx(5e300)


def test_complex_power():
    power = pointwise_ufunc("pow", vecmath.COMPLEX["pow"], ["c64", "c64"], ["c64"], ["c64", "c64"])
    draw = np.random.default_rng(3)
    z, w = (draw.normal(size=(2, 100)) + 1j * draw.normal(size=(2, 100))).astype("c8")
    np.testing.assert_allclose(power(z, w), z.astype("c16") ** w.astype("c16"), rtol=2e-7)
    assert power(np.complex64(0), np.complex64(2)) == 0
