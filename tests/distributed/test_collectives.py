"""Worlds of two and of four processes."""

from pathlib import Path

import pytest

from .world import needs_mpi, run

HERE = Path(__file__).parent
CHECKS = "same_everywhere parts background objects one_to_another groups dtypes layouts wrong_calls graphs methods sparse forked"


@needs_mpi
@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_collectives(size):
    run(HERE / "collective_checks.py", CHECKS.split(), size)
