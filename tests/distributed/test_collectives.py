"""Worlds of two and of four processes."""

from pathlib import Path

import pytest

from .world import needs_mpi, run

HERE = Path(__file__).parent


@needs_mpi
@pytest.mark.parametrize("size", [2, 4])
def test_collectives(size):
    run(
        HERE / "collective_checks.py",
        ["same_everywhere", "parts", "background", "objects", "one_to_another", "groups"],
        size,
    )
