"""Samplers in machine code: the same numbers as the samplers in Python, and the same place in the stream after them."""

import numpy as np
import pytest

import flambeau as torch
from flambeau._core import random_samplers as samplers
from flambeau._core.random import MersenneState
from flambeau._core.random_transforms import standard_normals

RATES = np.random.default_rng(0).gamma(0.7, 20.0, size=700)
COUNTS = np.random.default_rng(1).integers(0, 300, size=700)
CHANCES = np.random.default_rng(2).uniform(size=700)
CHANCES[:4] = 0, 1, 0.5, 1e-7
SAMPLERS = {
    "gamma": lambda e, d: samplers.standard_gamma(e, (RATES * (np.arange(700) % 5)).astype(d)),
    "dirichlet": lambda e, d: samplers.dirichlet(e, RATES.astype(d).reshape(100, 7)),
    "poisson": lambda e, d: samplers.poisson(e, (RATES * (np.arange(700) % 5)).astype(d)),
    "binomial": lambda e, d: samplers.binomial(e, COUNTS.astype(d), CHANCES.astype(d)),
}


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("before", [0, 1])
def test_same_as_python(name, dtype, before, monkeypatch):
    torch.rand(1)  # has machine code installed
    engines = [MersenneState(5), MersenneState(5)]
    for engine in engines:
        standard_normals(engine, before)
    fast = SAMPLERS[name](engines[0], dtype)
    monkeypatch.setattr(samplers, "native", None)
    slow = SAMPLERS[name](engines[1], dtype)
    np.testing.assert_allclose(fast, slow, rtol=0 if dtype is np.float32 else 1e-13)
    np.testing.assert_array_equal(engines[0].get_state(), engines[1].get_state())


def test_more_than_one_batch_of_uniforms():
    e = MersenneState(1)
    values = samplers.standard_gamma(e, np.full(200_000, 2.5))
    assert values.mean() == pytest.approx(2.5, abs=0.02) and values.var() == pytest.approx(2.5, abs=0.05)
    counts = samplers.poisson(e, np.full(100_000, 9.5))
    assert counts.mean() == pytest.approx(9.5, abs=0.05) and counts.var() == pytest.approx(9.5, abs=0.2)


@pytest.mark.parametrize("count", [3, 300])
def test_not_numbers_and_infinity_come_to_an_end(count):
    nan, inf, half = (torch.full((count,), x) for x in (float("nan"), float("inf"), 0.5))
    assert torch.poisson(inf).isinf().all() and torch._standard_gamma(inf).isinf().all()
    assert torch.binomial(nan, half).isnan().all() and torch.binomial(half * 10, nan).isnan().all()
    assert torch.binomial(inf, half).isinf().all() and torch._standard_gamma(nan).isnan().all()
    with pytest.raises(RuntimeError):
        torch.poisson(nan)


def test_tail_of_stirlings_formula():
    """log(k!) beyond its leading terms; with NumPy in the place of a kernel's language."""
    from math import lgamma, log, pi

    from flambeau._kernel.samplers import _tail

    for k in range(40):
        leading = 0.5 * log(2 * pi) + (k + 0.5) * log(k + 1) - (k + 1)
        assert float(_tail(np, np.float64(k))) == pytest.approx(lgamma(k + 1) - leading, abs=1e-9)
