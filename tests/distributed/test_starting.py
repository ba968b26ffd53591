"""One program, started by spawn with an address or a file to meet at, and by mpiexec."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .world import SECONDS, environment, free_port, needs_mpi

PROGRAM = str(Path(__file__).parent / "start_checks.py")


def started(*command, **more):
    done = subprocess.run(command, env=environment(**more), capture_output=True, text=True, timeout=SECONDS)
    return done.returncode, sorted(done.stdout.splitlines()), done.stderr


@pytest.mark.slow
@needs_mpi
def test_spawn_with_an_address():
    code, out, errors = started(sys.executable, PROGRAM, "spawn", "work", f"tcp://127.0.0.1:{free_port()}")
    assert (code, out) == (0, ["0 of 2: 3 gloo", "1 of 2: 3 gloo"]), errors


@pytest.mark.slow
@needs_mpi
def test_spawn_with_a_file_and_a_second_world(tmp_path):
    code, out, errors = started(sys.executable, PROGRAM, "spawn", "twice", f"file://{tmp_path}/first")
    assert (code, out) == (0, ["0 of 2: 3 gloo"] * 2 + ["1 of 2: 3 gloo"] * 2), errors
    assert not os.listdir(tmp_path)  # the last process removes the file


@needs_mpi
def test_libraries_that_import_mpi_do_not_start_it():
    program = (
        "import flambeau.distributed\nfrom mpi4py import MPI\nprint(MPI.COMM_WORLD.Get_size(), MPI.COMM_WORLD.rank, MPI.Is_initialized())"
        "\nprint(MPI.COMM_WORLD.allreduce(3), MPI.Is_initialized())"
    )
    code, out, errors = started(sys.executable, "-c", program)
    assert (code, out) == (0, ["1 0 False", "3 True"]), errors


@pytest.mark.slow
@needs_mpi
def test_mpiexec():
    mpiexec = shutil.which("mpiexec") or str(Path(sys.executable).parent / "mpiexec")
    if not os.path.exists(mpiexec):
        pytest.skip("there is no mpiexec here")
    code, out, errors = started(mpiexec, "-n", "2", sys.executable, PROGRAM, "mpi")
    assert (code, out) == (0, ["0 of 2: 3 mpi", "1 of 2: 3 mpi"]), errors


@pytest.mark.slow
@pytest.mark.parametrize("world", [False, pytest.param(True, marks=needs_mpi)])
def test_an_error_of_a_child_is_raised_with_its_traceback(world):
    code, _, errors = started(sys.executable, PROGRAM, "fail", *([f"tcp://127.0.0.1:{free_port()}"] if world else []))
    assert code == 1 and "ProcessRaisedException" in errors and "ValueError: the second process fails" in errors
    assert "in fail\n" in errors
