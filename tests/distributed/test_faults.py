"""Processes that are late, dead, missing or make other calls: the others hear of it in an error that names the rank."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

import flambeau.distributed as dist

from .world import SECONDS, environment, free_port, needs_mpi

HERE = Path(__file__).parent


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize("victim", [0, 2])
def test_late_unlike_and_dead_ranks_are_named(victim):
    shared = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    command = [sys.executable, str(HERE / "fault_checks.py"), str(victim)]
    processes = [
        subprocess.Popen(command, env=environment(RANK=str(r), **shared), stdout=-1, stderr=-1, text=True)
        for r in range(3)
    ]
    try:
        results = [process.communicate(timeout=SECONDS) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for rank, (out, errors) in enumerate(results):
        lines = {line.split(" | ")[0]: line.split(" | ")[3] for line in out.splitlines()}
        if rank != 1:
            assert "rank 1 has not made this call" in lines["late"] and "barrier" in lines["late"], (out, errors)
        assert "rank 2 gave 8 bytes, rank 1 gave 12" in lines["sizes"], out
        assert "rank 0 gave 12 bytes, rank 2 gave 16" in lines["pieces"], out
        assert "make different calls" in lines["kinds"] and "make different calls" in lines["calls"], out
        for call in ["broadcast", "scatter"] if rank == 1 else ["reduce", "gather"] if rank == 0 else []:
            assert f"{call}: the tensors have different sizes" in lines[call] and "rank 1 gave 12" in lines[call], out
        assert "rank 1" in lines["exchange"] and "bytes to rank" in lines["exchange"], out
        assert rank == 2 or "rank 2" in lines["others"], out
        assert lines["whole"] == "[3.0, 3.0]", out
        if rank == victim:
            assert processes[rank].returncode == -9
            continue
        assert processes[rank].returncode == 0, (out, errors)
        assert lines["memory"] == "[]", out  # shared memory that would stay when all are killed
        assert f"rank {victim} died" in lines["dead"] and f"rank {victim} died" in lines["after"], (out, errors)


@pytest.mark.slow
@needs_mpi
def test_missing_ranks_are_named():
    with pytest.raises(dist.DistStoreError, match=r"1/3 clients joined: ranks 1, 2 are missing"):
        dist.init_process_group(
            "gloo", f"tcp://127.0.0.1:{free_port()}", rank=0, world_size=3, timeout=timedelta(seconds=0.5)
        )
    assert not dist.is_initialized()


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(RuntimeError, match=r"flambeau\[distributed\]"):
        dist.init_process_group(
            "gloo", f"tcp://127.0.0.1:{free_port()}", rank=0, world_size=2, timeout=timedelta(seconds=1)
        )


ENDING = """
import sys, time
import flambeau as torch, flambeau.distributed as dist
from flambeau.distributed import _mpi
_mpi._LEAVING = 0.5
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
if dist.get_rank() == int(sys.argv[1]):
    time.sleep(1.5) if sys.argv[2] == "late" else sys.exit(1 / 0)
"""


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize("how", ["late", "fails"])
def test_nobody_waits_at_the_end_for_one_that_ends_otherwise(how):
    worlds = []
    for odd in (0, 1):
        shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        command = [sys.executable, "-c", ENDING, str(odd), how]
        options = {"stderr": subprocess.DEVNULL if how == "fails" else None}
        worlds.append([subprocess.Popen(command, env=environment(RANK=str(r), **shared), **options) for r in (0, 1)])
    try:
        codes = [[process.wait(60) for process in world] for world in worlds]
    finally:
        for process in worlds[0] + worlds[1]:
            process.kill()
    assert codes == ([[0, 0], [0, 0]] if how == "late" else [[1, 0], [0, 1]])
