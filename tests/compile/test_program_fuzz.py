"""Random functions and training steps, compiled and run eagerly, bit for bit (`fuzz.py` runs as many as one likes)."""

import fuzz
import pytest


@pytest.mark.slow
def test_random_programs():
    assert [fuzz.check(seed) for seed in range(24)].count("program") > 18


@pytest.mark.slow
@pytest.mark.parametrize("start", range(100, 300, 50))
def test_more_random_programs(start):
    assert [fuzz.check(seed) for seed in range(start, start + 50)].count("program") > 35
