"""Meshes, divided tensors and divided parameters in worlds of two and of four processes."""

from pathlib import Path

import pytest

from .world import needs_mpi, run

HERE = Path(__file__).parent


@pytest.mark.slow
@needs_mpi
def test_tensors_of_two():
    run(
        HERE / "dtensor_checks.py",
        ["meshes", "redistribution", "operations", "wrong", "training", "styles", "divided_losses"],
        2,
    )


@pytest.mark.slow
@needs_mpi
def test_tensors_of_four():
    run(HERE / "dtensor_checks.py", ["meshes", "redistribution"], 4)


@pytest.mark.slow
@needs_mpi
def test_parameters_of_two():
    run(
        HERE / "fsdp_checks.py",
        [
            "like_one_process",
            "details",
            "divided_by",
            "overflow",
            "older_form",
            "memory",
            "computed_again",
            "from_nothing",
        ],
        2,
    )


@pytest.mark.slow
@needs_mpi
def test_parameters_of_four():
    run(HERE / "fsdp_checks.py", ["details", "divided_by"], 4)


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize("size", [2, 4])
def test_sequences(size):
    run(HERE / "context_checks.py", ["attention", "buffers", "wrong_uses", "on_parts"], size)
