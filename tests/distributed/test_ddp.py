"""`DistributedDataParallel` in worlds of two and of four processes."""

from pathlib import Path

import pytest

from .world import needs_mpi, run

CHECKS = Path(__file__).parent / "ddp_checks.py"


@pytest.mark.slow
@needs_mpi
def test_two():
    names = ["like_one_process", "gradients_add_up", "unused", "wrong_models", "buffers", "one_batch_norm", "hooks"]
    run(CHECKS, [*names, "uneven", "compiled", "again", "averaged_parameters", "sparse_gradients"], 2)


@pytest.mark.slow
@needs_mpi
def test_four():
    run(CHECKS, ["gradients_add_up", "unused", "one_batch_norm", "uneven", "sparse_gradients"], 4)
