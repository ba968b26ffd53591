"""Pointwise operations beyond what every record is tested for: promotion, options, errors, edges, special functions."""

import math

import numpy as np
import pytest
import scipy.special as sp

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck

INF, NAN = math.inf, math.nan


def t(values, dtype=None):
    return torch.tensor(values, dtype=dtype)


def values(x):
    return x.tolist()


# -- dtypes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (t([1], torch.int32), 2, torch.int32),
        (t([1], torch.int32), 2.5, torch.float32),
        (t([1], torch.uint8), t([1], torch.int8), torch.int16),
        (t([1.0], torch.float16), t([1.0], torch.bfloat16), torch.float32),
        (t([1.0]), t(1.0, torch.float64), torch.float32),
        (t([1]), t(1.0, torch.float64), torch.float64),
        (t([1.0], torch.float64), 1j, torch.complex128),
        (t([True]), 1, torch.int64),
        (t([1.0], torch.bfloat16), 2, torch.bfloat16),
    ],
)
def test_promotion(a, b, expected):
    assert (a + b).dtype is expected
    assert (b + a if isinstance(b, torch.Tensor) else b * a).dtype is expected


def test_integers_become_the_default_float_where_they_must():
    assert (t([1]) / t([2])).dtype is torch.float32
    assert torch.exp(t([1])).dtype is torch.float32
    assert torch.float_power(t([2.0]), 2).dtype is torch.float64


@pytest.mark.parametrize("number", [300, -1, 2**40])
def test_numbers_wrap_around_in_small_integers(number):
    out = t([1], torch.uint8) + number
    assert values(out) == [(1 + number) % 256]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: t([True]) - t([True]), RuntimeError),
        (lambda: t([True]) - 1, RuntimeError),
        (lambda: -t([True]), RuntimeError),
        (lambda: +t([True]), RuntimeError),
        (lambda: t([1.0]) & t([1.0]), NotImplementedError),
        (lambda: t([1j]) < t([1j]), NotImplementedError),
        (lambda: torch.maximum(t([1j]), t([1j])), RuntimeError),
        (lambda: torch.maximum(t([1.0]), 1.0), TypeError),
        (lambda: torch.floor(t([True])), NotImplementedError),
        (lambda: torch.add(t([1]), t([1]), alpha=0.5), RuntimeError),
        (lambda: torch.add(t([1.0]), t([1.0]), alpha=1j), RuntimeError),
        (lambda: torch.add(t([1]), t([1]), alpha=True), RuntimeError),
        (lambda: t([1]) // 0, RuntimeError),
        (lambda: t([1]) % t([0]), RuntimeError),
        (lambda: torch.fmod(t([1]), 0), RuntimeError),
        (lambda: torch.div(t([1]), 0, rounding_mode="trunc"), RuntimeError),
        (lambda: torch.div(t([1.0]), 2, rounding_mode="up"), RuntimeError),
        (lambda: t([1]) ** -1, RuntimeError),
        (lambda: torch.pow(2, 2), TypeError),
        (lambda: torch.clamp(t([1.0])), RuntimeError),
        (lambda: t([1]).add_(0.5), RuntimeError),
        (lambda: t([1.0, 2.0]).add_(torch.ones(3, 2)), RuntimeError),
        (lambda: t([1.0, 2.0]) + torch.ones(3), RuntimeError),
        (lambda: t([1.0]) + "x", TypeError),
        (lambda: torch.lerp(t([1.0]), t([1.0], torch.float64), 0.5), RuntimeError),
        (lambda: torch.addcdiv(t([1]), t([1]), t([1])), RuntimeError),
        (lambda: torch.heaviside(t([1.0]), t([1.0], torch.float64)), RuntimeError),
        (lambda: torch.polygamma(-1, t([1.0])), RuntimeError),
        (lambda: torch.mvlgamma(t([3.0]), 0), RuntimeError),
        (lambda: torch.isclose(t([1.0]), t([1.0], torch.float64)), RuntimeError),
        (lambda: t([1j]).abs_(), RuntimeError),
        (lambda: torch.special.erfcx(t([1.0], torch.bfloat16)), NotImplementedError),
    ],
)
def test_refused(call, error):
    with pytest.raises(error):
        call()


# -- arithmetic --------------------------------------------------------------------------------------------------


def test_alpha():
    x = t([1.0, 2.0])
    assert values(torch.add(x, x, alpha=2)) == [3.0, 6.0]
    assert values(torch.sub(x, 1, alpha=0.5)) == [0.5, 1.5]
    assert values(torch.rsub(x, 1, alpha=2)) == [-1.0, -3.0]
    assert values(x.clone().add_(x, alpha=-1)) == [0.0, 0.0]


def test_division_rounds_as_python_does():
    x, y = [7, -7, 7, -7, 0, 6], [2, 2, -2, -2, 3, 3]
    assert values(t(x) // t(y)) == [a // b for a, b in zip(x, y)]
    assert values(t(x) % t(y)) == [a % b for a, b in zip(x, y)]
    assert values(torch.fmod(t(x), t(y))) == [int(math.fmod(a, b)) for a, b in zip(x, y)]
    assert values(torch.div(t(x), t(y), rounding_mode="trunc")) == [int(a / b) for a, b in zip(x, y)]


def test_division_of_floats_matches_python():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=200) * 10.0 ** rng.integers(-20, 20, 200), [5.5, -5.5, 1e300, 0.0, 3.0]])
    y = np.concatenate([rng.normal(size=200), [2.0, 2.0, 1e-3, -1.0, 3.0]])
    assert values(torch.from_numpy(x) % torch.from_numpy(y)) == [a % b for a, b in zip(x.tolist(), y.tolist())]
    assert values(torch.fmod(torch.from_numpy(x), torch.from_numpy(y))) == [math.fmod(a, b) for a, b in zip(x, y)]
    small = np.abs(x / y) < 1e15
    floors = torch.from_numpy(x[small]) // torch.from_numpy(y[small])
    assert values(floors) == [a // b for a, b in zip(x[small].tolist(), y[small].tolist())]


def test_division_by_zero_of_floats():
    x = t([1.0, -1.0, 0.0])
    assert values(x // 0)[:2] == [INF, -INF] and math.isnan(values(x // 0)[2])
    assert torch.isnan(x % 0).all()


def test_smallest_integer_divided_by_minus_one_does_not_trap():
    x = t([-(2**63), 5])
    assert values(x // t([-1, -1])) == [-(2**63), -5]
    assert values(x % t([-1, -1])) == [0, 0]


def test_trigonometric_remainder_gradients():
    x = torch.tensor([5.5, -7.25], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([2.0, 3.0], dtype=torch.float64, requires_grad=True)
    assert gradcheck(torch.remainder, (x, y)) and gradcheck(torch.fmod, (x, y))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.5, -1, -2, 2.5, 7])
def test_powers_of_numbers(exponent):
    x = torch.tensor([0.5, 1.5, 3.0], dtype=torch.float64, requires_grad=True)
    np.testing.assert_allclose((x**exponent).detach().numpy(), x.detach().numpy() ** exponent, rtol=1e-14)
    assert gradcheck(lambda x: x**exponent, (x,)) and gradgradcheck(lambda x: x**exponent, (x,))


def test_integer_powers():
    assert values(t([2, -3, 0, 1, -1]) ** t([10, 3, 0, -5, -3])) == [1024, -27, 1, 1, -1]
    assert values(t([2, 5]) ** t([-1, -2])) == [0, 0]
    assert values(2 ** t([0, 3, 62])) == [1, 8, 2**62]
    assert values(t([3], torch.int8) ** 5) == [(243 + 128) % 256 - 128]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_large_integer_exponents(dtype):
    """They are seldom, so that kernels look for them: all bits count, whether usual ones are beside them or not."""
    bits, signed = 8 * dtype.itemsize, dtype.is_signed
    bases = [*range(-9 * signed, 10), 2**20 % 2**bits // 2 + 1]
    for exponents in ([0, 1, 63], [64, 65, 255], [3, 2 ** (bits - signed) - 1, 2 ** (bits - 2), 5]):
        pairs = [(x, y) for x in bases for y in exponents] * 40
        x, y = (torch.tensor(numbers, dtype=dtype) for numbers in zip(*pairs))
        expected = [pow(a, b, 1 << bits) for a, b in pairs]
        expected = [e - (1 << bits) if signed and e >> (bits - 1) else e for e in expected]
        assert (x**y).tolist() == expected
        assert (x[::3] ** y[::3]).tolist() == expected[::3]


def test_gradients_of_zero_to_the_zero():
    x = t([0.0, 0.0, 2.0]).requires_grad_()
    y = t([0.0, 2.0, 0.0]).requires_grad_()
    (x**y).sum().backward()
    assert values(x.grad) == [0.0, 0.0, 0.0]
    assert values(y.grad)[:2] == [0.0, 0.0] and values(y.grad)[2] == pytest.approx(math.log(2.0))


def test_number_bases_have_gradients():
    x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda x: 3.0**x, (x,)) and gradgradcheck(lambda x: 3.0**x, (x,))


def test_clamp():
    x = t([-2.0, 0.5, 3.0, NAN])
    assert values(x.clamp(0, 1))[:3] == [0.0, 0.5, 1.0] and math.isnan(values(x.clamp(0, 1))[3])
    assert values(x.clamp(min=t([0.0, 1.0, 4.0, 0.0])))[:3] == [0.0, 1.0, 4.0]
    assert values(torch.clip(x, max=0.25))[:3] == [-2.0, 0.25, 0.25]
    assert values(torch.clamp(t([1, 5]), 2, 3)) == [2, 3]
    assert torch.clamp(t([1, 5]), 0.5).dtype is torch.float32
    assert values(torch.clamp(t([0.0]), 2, 1)) == [1.0]


def test_maximum_shares_the_gradient_of_equals():
    x, y = t([1.0, 2.0, 3.0]).requires_grad_(), t([1.0, 5.0, 0.0]).requires_grad_()
    torch.maximum(x, y).sum().backward()
    assert values(x.grad) == [0.5, 0.0, 1.0] and values(y.grad) == [0.5, 1.0, 0.0]


def test_nan_in_extremes():
    x, y = t([NAN, 1.0]), t([2.0, NAN])
    assert torch.isnan(torch.maximum(x, y)).all()
    assert values(torch.fmax(x, y)) == [2.0, 1.0]


def test_lerp_reaches_both_ends_exactly():
    x, y = t([0.1, -3.7]), t([0.3, 5.9])
    assert values(torch.lerp(x, y, 0.0)) == values(x) and values(torch.lerp(x, y, 1.0)) == values(y)
    assert values(torch.lerp(x, y, torch.ones(2))) == values(y)


def test_addcmul_and_addcdiv():
    x, y = t([1.0, 2.0]), t([4.0, 8.0])
    assert values(torch.addcmul(x, y, y, value=0.5)) == [9.0, 34.0]
    assert values(torch.addcdiv(x, y, x, value=2)) == [9.0, 10.0]
    assert values(torch.addcmul(t([1]), t([2]), t([3]), value=2)) == [13]


def test_integer_functions():
    assert values(torch.gcd(t([12, -18, 0, 0]), t([18, 12, 5, 0]))) == [6, 6, 5, 0]
    assert values(torch.lcm(t([4, -6, 0]), t([6, 4, 5]))) == [12, 12, 0]


def test_bits_of_floats():
    m, e = torch.frexp(t([8.0, -0.3, 0.0, 1e-40]))
    assert values(e) == [math.frexp(v)[1] for v in (8.0, -0.3, 0.0)] + [math.frexp(float(np.float32(1e-40)))[1]]
    assert values(m)[:1] == [0.5] and torch.frexp(t([1.0])).exponent.dtype is torch.int32
    for d in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        up = torch.nextafter(t([1.0, 0.0, -1.0], d), t([2.0, 1.0, 0.0], d))
        assert (up > t([1.0, 0.0, -1.0], d)).all()
        assert values(torch.nextafter(up, t([-9.0], d))) == [1.0, 0.0, -1.0]
    assert values(torch.ldexp(t([1.5]), t([3]))) == [12.0]


def test_signs():
    assert values(torch.sign(t([-2.0, 0.0, 3.0, NAN]))) == [-1.0, 0.0, 1.0, 0.0]
    assert values(torch.sgn(t([3 + 4j, 0j]))) == pytest.approx([0.6 + 0.8j, 0j])
    assert values(torch.signbit(t([-0.0, 0.0, -1.0]))) == [True, False, True]
    assert values(torch.copysign(t([1, 2]), -0.0)) == [-1.0, -2.0]
    assert values(torch.heaviside(t([-1.0, 0.0, 2.0]), t([0.5]))) == [0.0, 0.5, 1.0]


def test_nan_to_num():
    x = t([NAN, INF, -INF, 1.0])
    assert values(torch.nan_to_num(x, 7.0, 8.0, 9.0)) == [7.0, 8.0, 9.0, 1.0]
    assert values(torch.nan_to_num(x))[1] == float(np.finfo(np.float32).max)
    assert values(torch.nan_to_num(t([3]))) == [3]


def test_complex_parts():
    z = torch.tensor([1 + 2j, -3j], dtype=torch.complex128, requires_grad=True)
    assert values(torch.conj(z)) == [1 - 2j, 3j]
    real = t([1.0])
    assert torch.conj(real) is real
    np.testing.assert_allclose(torch.angle(z).detach().numpy(), np.angle(z.detach().numpy()))
    assert values(torch.angle(t([-1.0, 1.0]))) == pytest.approx([math.pi, 0.0])
    assert gradcheck(torch.angle, (z,)) and gradcheck(torch.abs, (z,))


# -- comparison and logic ----------------------------------------------------------------------------------------


def test_comparisons_with_numbers_on_either_side():
    x = t([1, 2, 3])
    assert values(x > 2) == [False, False, True] and values(x >= 2) == [False, True, True]
    assert values(x == 2.5) == [False] * 3 and values(x != 2) == [True, False, True]
    assert values(x.clone().eq_(2)) == [0, 1, 0]


def test_closeness():
    a, b = t([1.0, NAN, INF, 1.0]), t([1.0 + 1e-6, NAN, INF, 1.1])
    assert values(torch.isclose(a, b)) == [True, False, True, False]
    assert values(torch.isclose(a, b, equal_nan=True)) == [True, True, True, False]
    assert torch.allclose(a[:1], b[:1]) and not torch.allclose(a, b)
    assert values(torch.isclose(t([100, 1]), t([101, 1]), rtol=0.02)) == [True, True]
    assert torch.equal(t([1, 2]), t([1, 2])) and not torch.equal(t([1, 2]), t([[1, 2]]))
    assert not torch.equal(t([NAN]), t([NAN]))


def test_shifts_beyond_the_width_are_defined():
    x = t([1, -8])
    assert values(torch.bitwise_left_shift(x, 64)) == [0, 0] and values(x << -1) == [0, 0]
    assert values(x >> 70) == [0, -1] and values(t([200], torch.uint8) >> 9) == [0]
    assert values(1 << t([3, 4])) == [8, 16]


def test_bits_and_truth():
    a, b = t([12, 10]), t([10, 12])
    assert (values(a & b), values(a | b), values(a ^ b), values(~a)) == ([8, 8], [14, 14], [6, 6], [-13, -11])
    assert values(5 & t([4, 1])) == [4, 1]
    assert values(torch.logical_xor(t([0.0, 2.0]), t([3.0, 1.0]))) == [True, False]
    assert values(~t([True, False])) == [False, True]


def test_comparisons_have_no_history():
    assert not (t([1.0]).requires_grad_() > 0).requires_grad


# -- rounding ----------------------------------------------------------------------------------------------------


def test_rounding():
    x = t([0.5, 1.5, -2.5, 2.45])
    assert values(torch.round(x)) == [0.0, 2.0, -2.0, 2.0]
    assert values(torch.round(t([1.2345], torch.float64), decimals=2)) == [1.23]
    assert values(torch.round(t([1234.5]), decimals=-2)) == [1200.0]
    assert values(torch.frac(t([-1.25, 2.5]))) == [-0.25, 0.5]
    assert values(t([1.7]).round_()) == [2.0] and values(torch.floor(t([3]))) == [3]


# -- 16-bit floats -----------------------------------------------------------------------------------------------


def test_numbers_beside_short_floats_keep_their_precision():
    x = torch.full((3,), 3.0, dtype=torch.bfloat16)
    exact = float(torch.tensor(3.0 * 0.1).to(torch.bfloat16))
    assert values(x * 0.1) == [exact] * 3 and values(x.clone().mul_(0.1)) == [exact] * 3
    assert values(torch.lerp(torch.zeros(1, dtype=torch.bfloat16), x[:1], 0.3)) == [float(t(0.9).to(torch.bfloat16))]


# -- special functions -------------------------------------------------------------------------------------------

POSITIVE = np.concatenate([np.geomspace(1e-3, 60, 120), [2.0, 8.0, 1.999, 8.001]])
BOTH = np.concatenate([POSITIVE, -POSITIVE])


@pytest.mark.parametrize(
    ("name", "reference", "points"),
    [
        ("i0", sp.i0, BOTH), ("i0e", sp.i0e, BOTH), ("i1", sp.i1, BOTH), ("i1e", sp.i1e, BOTH),
        ("bessel_j0", sp.j0, BOTH), ("bessel_j1", sp.j1, BOTH), ("bessel_y0", sp.y0, POSITIVE),
        ("bessel_y1", sp.y1, POSITIVE), ("modified_bessel_k0", sp.k0, POSITIVE),
        ("modified_bessel_k1", sp.k1, POSITIVE), ("scaled_modified_bessel_k0", sp.k0e, POSITIVE),
        ("scaled_modified_bessel_k1", sp.k1e, POSITIVE), ("modified_bessel_i1", sp.i1, BOTH),
        ("spherical_bessel_j0", lambda x: sp.spherical_jn(0, np.abs(x)), BOTH),
        ("airy_ai", lambda x: sp.airy(x)[0], np.linspace(-30, 20, 301)),
        ("erfcx", sp.erfcx, np.linspace(-5, 50, 99)), ("ndtr", sp.ndtr, np.linspace(-30, 8, 99)),
        ("log_ndtr", sp.log_ndtr, np.linspace(-30, 5, 99)), ("ndtri", sp.ndtri, np.linspace(0.001, 0.999, 99)),
        ("entr", sp.entr, np.linspace(0, 3, 50)), ("gammaln", sp.gammaln, np.linspace(0.1, 40, 99)),
        ("psi", sp.psi, np.linspace(0.1, 40, 99)), ("expit", sp.expit, BOTH), ("erfinv", sp.erfinv, np.linspace(-0.99, 0.99, 50)),
    ],
)  # fmt: skip
def test_special_function(name, reference, points):
    expected = reference(points)
    function = getattr(torch.special, name)
    np.testing.assert_allclose(function(torch.from_numpy(points)).numpy(), expected, rtol=3e-12, atol=1e-14)
    single = points.astype(np.float32)
    with np.errstate(over="ignore"):
        expected = reference(single.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(function(torch.from_numpy(single)).numpy(), expected, rtol=4e-6, atol=1e-6)


@pytest.mark.parametrize(("dtype", "digits", "rtol"), [(torch.float64, 150, 1e-14), (torch.float32, 19, 1e-6)])
def test_log_ndtr_far_below_zero(dtype, digits, rtol):
    x = -(10.0 ** torch.arange(2, digits, dtype=torch.float64)).to(dtype).requires_grad_()
    out = torch.special.log_ndtr(x)
    at = x.detach().double().numpy()
    np.testing.assert_allclose(out.detach().numpy(), sp.log_ndtr(at), rtol)
    (slope,) = torch.autograd.grad(out.sum(), x)
    np.testing.assert_allclose(slope.numpy(), -at * (1 + at**-2.0 - 2 * at**-4.0), max(rtol, 1e-11))


def test_bessel_functions_at_their_ends():
    assert values(torch.special.bessel_y0(t([0.0, -1.0])))[0] == -INF
    assert values(torch.special.modified_bessel_k1(t([0.0])))[0] == INF
    assert values(torch.special.bessel_j1(t([0.0]))) == [0.0] and values(torch.i0(t([0.0]))) == [1.0]


def test_zeta_of_single_precision():
    """All but rare arguments have a form in vectors, which must agree with the long one, beside it too."""
    rng = np.random.default_rng(0)
    x = (1 + np.exp(rng.uniform(-6, 5, 5000))).astype(np.float32)
    q = np.exp(rng.uniform(-10, 12, 5000)).astype(np.float32)
    x[::97], q[::89] = 1.0, -0.5
    x[5::101], q[7::103] = np.inf, np.inf
    for cut in (slice(None), slice(0, 3), slice(1, 3000, 7)):
        made = torch.special.zeta(torch.from_numpy(x[cut]), torch.from_numpy(q[cut])).numpy()
        exact = torch.special.zeta(
            torch.from_numpy(x[cut].astype(np.float64)), torch.from_numpy(q[cut].astype(np.float64))
        )
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(made, exact.numpy().astype(np.float32), rtol=3e-7, atol=1e-37)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_digamma_beside_its_poles(dtype):
    x = np.concatenate(
        [np.linspace(-6.3, 9.7, 700), [0.0, -0.0, -1.0, -7.0, np.inf, -np.inf, np.nan, 1e-30, 1e30]]
    ).astype(dtype)
    for cut in (slice(None), slice(300, 330), slice(0, None, 3)):
        expected = sp.digamma(x[cut].astype(np.float64))
        expected[np.isneginf(x[cut])] = np.nan
        expected[(x[cut] < 0) & (x[cut] == np.floor(x[cut]))] = np.nan
        made = torch.digamma(torch.from_numpy(x[cut].copy())).numpy()
        np.testing.assert_allclose(made, expected.astype(dtype), rtol=2e-5 if dtype is np.float32 else 1e-11, atol=2e-6)


def test_trigamma_far_out():
    x = torch.tensor([1e10, 1e29, 1e31, 1e100, 1e200, INF], dtype=torch.float64)
    assert torch.special.polygamma(1, x).tolist() == pytest.approx(
        [1e-10, 1e-29, 1e-31, 1e-100, 1e-200, 0.0], rel=1e-9, abs=0
    )


def test_zeta_and_polygamma():
    x, q = np.linspace(1.1, 9, 40), np.linspace(0.2, 30, 40)
    np.testing.assert_allclose(
        torch.special.zeta(torch.from_numpy(x), torch.from_numpy(q)).numpy(), sp.zeta(x, q), rtol=1e-13
    )
    assert values(torch.special.zeta(t([1.0, 2.0]), t([2.0, 0.0]))) == [INF, INF]
    points = np.concatenate([np.linspace(0.1, 20, 40), [-0.5, -1.3, -4.7]])
    for n in range(1, 5):
        ours = torch.polygamma(n, torch.from_numpy(points)).numpy()
        np.testing.assert_allclose(ours[:40], sp.polygamma(n, points[:40]), rtol=1e-12)
    assert values(torch.polygamma(1, t([-0.5], torch.float64)))[0] == pytest.approx(8.934802200544679, rel=1e-12)
    assert values(t([1.0], torch.float64).polygamma(2))[0] == pytest.approx(-2.4041138063191885, rel=1e-13)


def test_multivariate_gamma():
    x = np.linspace(2.6, 20, 17)
    np.testing.assert_allclose(
        torch.mvlgamma(torch.from_numpy(x), 5).numpy(), [sp.multigammaln(v, 5) for v in x], rtol=1e-13
    )
    assert gradcheck(lambda x: torch.mvlgamma(x, 3), (torch.from_numpy(x).requires_grad_(),))


@pytest.mark.parametrize("scale", [1.0, 30.0, 900.0, 3e4, 1e6])
def test_incomplete_gamma(scale):
    rng = np.random.default_rng(1)
    a = rng.uniform(0.1, 1, 50) * scale
    x = a * rng.uniform(0.7, 1.4, 50)
    x[::5] = a[::5] * (1 + rng.uniform(-3, 3, 10) / np.sqrt(a[::5]))
    x = np.abs(x)
    for ours, reference in ((torch.igamma, sp.gammainc), (torch.igammac, sp.gammaincc)):
        np.testing.assert_allclose(
            ours(torch.from_numpy(a), torch.from_numpy(x)).numpy(), reference(a, x), rtol=1e-9, atol=1e-12
        )


def test_incomplete_gamma_at_its_ends():
    a, x = t([1.0, 1.0, 0.0, -1.0]), t([0.0, INF, 1.0, 1.0])
    assert values(torch.igamma(a, x))[:3] == [0.0, 1.0, 1.0] and math.isnan(values(torch.igamma(a, x))[3])


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("chebyshev_polynomial_t", sp.eval_chebyt), ("chebyshev_polynomial_u", sp.eval_chebyu),
        ("hermite_polynomial_h", sp.eval_hermite), ("hermite_polynomial_he", sp.eval_hermitenorm),
        ("laguerre_polynomial_l", sp.eval_laguerre), ("legendre_polynomial_p", sp.eval_legendre),
        ("shifted_chebyshev_polynomial_t", sp.eval_sh_chebyt), ("shifted_chebyshev_polynomial_u", sp.eval_sh_chebyu),
        ("chebyshev_polynomial_v", lambda n, x: np.cos((n + 0.5) * np.arccos(x)) / np.cos(np.arccos(x) / 2)),
        ("chebyshev_polynomial_w", lambda n, x: np.sin((n + 0.5) * np.arccos(x)) / np.sin(np.arccos(x) / 2)),
    ],
)  # fmt: skip
def test_orthogonal_polynomials(name, reference):
    x = np.linspace(-0.95, 0.95, 21)
    function = getattr(torch.special, name)
    for n in (0, 1, 2, 5, 12):
        np.testing.assert_allclose(function(torch.from_numpy(x), n).numpy(), reference(n, x), rtol=1e-10, atol=1e-11)
    assert values(function(torch.from_numpy(x), -1)) == [0.0] * 21


@pytest.mark.parametrize("degree", [4096, 5001, 1e7])
def test_high_chebyshev_degrees_come_from_the_angle(degree):
    x = np.linspace(-0.9, 0.9, 7)
    angle = np.arccos(x)
    for kind, expected in {
        "t": np.cos(degree * angle), "u": np.sin((degree + 1) * angle) / np.sin(angle),
        "v": np.cos((degree + 0.5) * angle) / np.cos(angle / 2), "w": np.sin((degree + 0.5) * angle) / np.sin(angle / 2),
    }.items():  # fmt: skip
        made = getattr(torch.special, f"chebyshev_polynomial_{kind}")(torch.from_numpy(x), degree)
        np.testing.assert_allclose(made.numpy(), expected, atol=1e-6)
        shifted = getattr(torch.special, f"shifted_chebyshev_polynomial_{kind}")(torch.from_numpy((x + 1) / 2), degree)
        np.testing.assert_allclose(shifted.numpy(), expected, atol=1e-6)


# -- forms -------------------------------------------------------------------------------------------------------


def test_out_and_in_place_of_functions_with_options():
    x, out = t([1.0, 4.0]), torch.empty(2)
    assert torch.div(x, 2, rounding_mode="floor", out=out) is out and values(out) == [0.0, 2.0]
    assert torch.pow(x, 2, out=out) is out and values(out) == [1.0, 16.0]
    y = x.clone()
    assert y.div_(2, rounding_mode="trunc") is y and values(y) == [0.0, 2.0]
    assert values(x.clone().pow_(3)) == [1.0, 64.0] and values(x.clone().clamp_(max=2)) == [1.0, 2.0]
    assert values(x.clone().lerp_(y, 0.5)) == [0.5, 3.0]


def test_in_place_power_keeps_the_value_its_derivative_needs():
    x = torch.tensor([2.0, 3.0], requires_grad=True)
    y = x * 1
    y.pow_(2)
    y.sum().backward()
    assert values(x.grad) == [4.0, 6.0]


def test_double_backward_keeps_the_precision_of_parameters():
    x = torch.tensor([1.3], dtype=torch.float64, requires_grad=True)
    (g,) = torch.autograd.grad(x**2.1, x, create_graph=True)
    (h,) = torch.autograd.grad(g, x)
    assert values(h)[0] == pytest.approx(2.1 * 1.1 * 1.3**0.1, rel=1e-14)


@pytest.mark.filterwarnings("ignore:This overload of .* is deprecated:UserWarning")
def test_older_orders_of_arguments():
    x, a, b = torch.ones(2, 2), torch.full((2, 2), 2.0), torch.full((2, 2), 3.0)
    for made, wanted in (
        (x.add(0.5, a), 2.0), (torch.add(x, 0.5, a), 2.0), (x.clone().add_(0.5, a), 2.0), (x.sub(0.5, a), 0.0),
        (x.clone().sub_(0.5, a), 0.0), (x.addcmul(0.5, a, b), 4.0), (x.clone().addcmul_(0.5, a, b), 4.0),
        (torch.addcdiv(x, 3.0, a, b), 3.0), (x.clone().addcdiv_(3.0, a, b), 3.0),
        (torch.addmm(0.5, x, 2.0, a, b), 24.5), (x.addmm(0.5, 2.0, a, b), 24.5), (x.addmm(0.5, a, b), 12.5),
        (x.clone().addmm_(0.5, 2.0, a, b), 24.5),
    ):  # fmt: skip
        assert torch.allclose(made, torch.full((2, 2), wanted))


def test_factors_may_be_tensors_of_no_dimension():
    x, a, factor = torch.ones(2), torch.full((2,), 2.0), torch.tensor(2.0)
    assert x.add(a, alpha=factor).tolist() == x.clone().add_(a, alpha=factor).tolist() == [5.0, 5.0]
    assert x.sub(a, alpha=factor).tolist() == [-3.0, -3.0] and x.addcmul(a, a, value=factor).tolist() == [9.0, 9.0]
    for wrong in (torch.tensor([2.0]), torch.tensor(2.0, requires_grad=True)):
        with pytest.raises(TypeError):
            x.add(a, alpha=wrong)


def test_incomplete_gamma_functions_in_all_their_forms():
    """The series, the fraction and the expansion near the mean; values from SciPy 1.16."""
    a = torch.tensor([0.5, 3.0, 3.0, 20.0, 2e4, 2e4, 2e4], dtype=torch.float64)
    x = torch.tensor([0.1, 1.0, 9.0, 40.0, 1.99e4, 2.01e4, 1e4], dtype=torch.float64)
    lower = torch.tensor(
        [
            0.34527915398142317,
            0.08030139707139418,
            0.9937678048936227,
            0.9998236971022614,
            0.24011560718543096,
            0.7606167055614176,
            0.0,
        ],
        dtype=torch.float64,
    )
    assert torch.allclose(torch.special.gammainc(a, x), lower, rtol=1e-9, atol=0)
    assert torch.allclose(torch.special.gammaincc(a, x), 1 - lower, rtol=1e-9, atol=1e-12)
    single = torch.special.gammainc(a.float(), x.float())
    assert torch.allclose(single, lower.float(), rtol=1e-5, atol=1e-7)


def test_arguments_by_numpys_names():
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    assert torch.exp(x=a).equal(a.exp()) and torch.sqrt(x1=a, out=torch.empty(2)).equal(a.sqrt())
    assert (
        torch.maximum(x1=a, x2=b).equal(b)
        and torch.mul(a, x2=b).tolist() == [3, 8]
        and torch.neg(a=a).tolist() == [-1, -2]
    )
    with pytest.raises(TypeError, match=r'exp\(\) missing 1 required positional arguments: "input"'):
        torch.exp(y=a)
    with pytest.raises(TypeError, match=r'missing 2 required positional argument: "input", "other"'):
        torch.maximum()


@pytest.mark.parametrize(("dtype", "accuracy"), [(np.float32, 1e-6), (np.float64, 1e-11)])
def test_gamma_functions_in_both_precisions(dtype, accuracy):
    """Both sides of where series, continued fractions and expansions take over from each other."""
    generator = np.random.default_rng(0)
    a, x = (np.exp(generator.uniform(*np.log(range), 4000)).astype(dtype) for range in ((1e-3, 25.0), (1e-4, 60.0)))
    a[:12], x[:12] = 11.999, [1e-19, 1e-21, 2.99, 3.01, 12.9, 13.1, 689.0, 691.0, 1.99, 2.01, 30.0, 100.0]
    a[12:24], x[12:24] = 0.01, x[:12]
    one, two = torch.from_numpy(a), torch.from_numpy(x)
    pairs = [
        (torch.special.gammainc(one, two), sp.gammainc(a.astype(np.float64), x.astype(np.float64))),
        (torch.special.gammaincc(one, two), sp.gammaincc(a.astype(np.float64), x.astype(np.float64))),
        (torch.lgamma(one), sp.gammaln(a.astype(np.float64))), (torch.digamma(one), sp.digamma(a.astype(np.float64))),
        (torch.special.polygamma(1, one), sp.polygamma(1, a.astype(np.float64))),
    ]  # fmt: skip
    for made, expected in pairs:
        found = made.double().numpy()
        usual = np.abs(expected) > np.finfo(dtype).tiny
        assert np.allclose(found[usual], expected[usual], rtol=accuracy, atol=0)


def test_nothing_is_recorded_without_gradients():
    x, wide, number = torch.ones(2, requires_grad=True), torch.ones(2, dtype=torch.float64), torch.tensor(2.0)
    calls = [
        lambda: torch.add(x, wide), lambda: x * 2, lambda: 3.0 - x, lambda: x + x, lambda: torch.exp(x), lambda: x**2.5, lambda: 2**x,
        lambda: torch.where(x > 0, x, 1.0), lambda: torch.lerp(x, x, 0.5), lambda: torch.add(x, 1, alpha=2), lambda: torch.clamp(x, 0, 1),
        lambda: x / number, lambda: torch.frexp(x)[0], lambda: torch.atan2(x, wide), lambda: torch.addcmul(x, x, x),
    ]  # fmt: skip
    for call in calls:
        for _ in range(4):
            with torch.no_grad():
                made = call()
                assert not made.requires_grad and made.grad_fn is None
            assert call().requires_grad
        x.requires_grad_(False)
        assert not call().requires_grad
        x.requires_grad_()


def test_frexp_gives_the_named_result():
    made = torch.frexp(torch.tensor([8.0]))
    assert isinstance(made, torch.return_types.frexp)
    assert repr(made).startswith("torch.return_types.frexp(\nmantissa=")


def test_operations_without_a_derivative_refuse_the_backward_pass():
    x = t([3.5, -2.2]).requires_grad_()
    calls = {
        "floor_divide": lambda: x // 2 + x,
        "heaviside": lambda: torch.heaviside(x, x.detach()),
        "bincount": lambda: torch.bincount(torch.tensor([0, 2]), x),
    }
    for name, call in calls.items():
        for _ in range(3):  # later calls have plans
            out = call()
            with pytest.raises(RuntimeError, match=f"derivative for aten::{name} is not implemented"):
                out.sum().backward()
    assert (7 // x).grad_fn.name() == "torch::autograd::NotImplemented"
    torch.div(x, 2, rounding_mode="floor").sum().backward()
    assert values(x.grad) == [0.0, 0.0]
