"""Samplers in machine code: the numbers that they draw, and the place in the stream after them."""

import zlib

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


# Checksums of what is drawn and of the state afterwards, without and with a normal number left over; they are those of a plain
# reading of the algorithms with the C library's functions.
DRAWN = {
    "gamma float32": [(2817265958, 3243846884), (2285339251, 1520891127)],
    "gamma float64": [(3087042342, 3243846884), (3764523731, 1520891127)],
    "dirichlet float32": [(921900751, 1555723146), (985582819, 2050335228)],
    "dirichlet float64": [(4206373538, 1555723146), (1236201115, 2050335228)],
    "poisson float32": [(1092725761, 228884993), (2288892618, 3712046213)],
    "poisson float64": [(1180137250, 228884993), (659048015, 3712046213)],
    "binomial float32": [(3502357084, 2997494777), (2937753752, 325857019)],
    "binomial float64": [(3739474551, 2997494777), (3926333468, 325857019)],
}


@pytest.mark.parametrize("case", DRAWN)
@pytest.mark.parametrize("before", [0, 1])
def test_recorded_draws(case, before):
    name, dtype = case.split()
    engine = MersenneState(5)
    standard_normals(engine, before)
    drawn = SAMPLERS[name](engine, np.dtype(dtype))
    assert (zlib.crc32(drawn.tobytes()), zlib.crc32(engine.get_state().tobytes())) == DRAWN[case][before]


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

    from flambeau._kernel.random.samplers import _tail

    for k in range(40):
        leading = 0.5 * log(2 * pi) + (k + 0.5) * log(k + 1) - (k + 1)
        assert float(_tail(np, np.float64(k))) == pytest.approx(lgamma(k + 1) - leading, abs=1e-9)
