"""Random functions of statements as programs have them, compiled and run eagerly (`fuzz_statements.py` runs as many as one likes)."""

import fuzz_statements
import pytest


def test_random_functions():
    assert [fuzz_statements.check(seed) for seed in range(10)].count(True) > 5


@pytest.mark.slow
@pytest.mark.parametrize("start", range(100, 300, 50))
def test_more_random_functions(start):
    assert [fuzz_statements.check(seed) for seed in range(start, start + 50)].count(True) > 25
