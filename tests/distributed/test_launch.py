"""`flambeau launch`: restarts, logs, errors, signals, several machines."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flambeau.distributed.run import determine_local_world_size, parse_args, parse_min_max_nnodes

from .world import SECONDS, environment, free_port, needs_mpi

PROGRAM = str(Path(__file__).parent / "launched.py")


def launch(*arguments, by=("launch",)):
    command = [sys.executable, "-m", "flambeau", *by, *arguments]
    return subprocess.Popen(command, env=environment(), stdout=-1, stderr=-1, text=True)


@pytest.mark.slow
@needs_mpi
def test_pytorchs_own_name_of_the_launcher():
    job = launch("--standalone", "--nproc-per-node", "2", PROGRAM, "go", by=("run", "-m", "torch.distributed.run"))
    out, errors = job.communicate(timeout=SECONDS)
    assert job.returncode == 0, errors
    assert sorted(out.splitlines()) == [f"rank {r} of 2, local {r}: 3, restarts 0" for r in (0, 1)]


@pytest.mark.slow
@needs_mpi
def test_a_killed_worker_leads_to_a_restart(tmp_path):
    job = launch("--standalone", "--nproc-per-node", "2", "--max-restarts", "1", "--log-dir", str(tmp_path), "-t", "1",
                 "-r", "1:2", PROGRAM, "die")  # fmt: skip
    out, errors = job.communicate(timeout=SECONDS)
    assert job.returncode == 0, errors
    lines = [f"rank {r} of 2, local {r}: 3, restarts 1" for r in (0, 1)]
    assert sorted(out.splitlines()) == [f"[default{r}]:{line}" for r, line in enumerate(lines)]
    assert "restart 1 of 1" in errors
    (folder,) = tmp_path.iterdir()
    assert [(folder / f"attempt_1/{r}/stdout.log").read_text() for r in (0, 1)] == [line + "\n" for line in lines]
    assert (folder / "attempt_0/1/stderr.log").exists()


@pytest.mark.slow
@needs_mpi
def test_programs_may_end_while_calls_are_under_way():
    job = launch("--standalone", "--nproc-per-node", "2", PROGRAM, "unwaited")
    _, errors = job.communicate(timeout=SECONDS)
    assert job.returncode == 0, errors


@pytest.mark.slow
@needs_mpi
def test_a_job_goes_on_from_its_checkpoint_with_the_same_losses(tmp_path):
    found = []
    for what in ("live", "die"):
        (tmp_path / what).mkdir()
        program = [str(Path(__file__).parent / "resumed.py"), str(tmp_path / what), what]
        job = launch("--standalone", "--nproc-per-node", "2", "--max-restarts", "1", *program)
        out, errors = job.communicate(timeout=SECONDS)
        assert job.returncode == 0, errors
        found.append(out.split(", restarts "))
    (alone, none), (again, once) = found
    assert (none.strip(), once.strip()) == ("0", "1") and again == alone and alone.count(",") == 5


@pytest.mark.slow
@needs_mpi
def test_the_error_that_was_first_is_shown():
    job = launch("--nproc-per-node", "2", PROGRAM, "fail")
    _, errors = job.communicate(timeout=SECONDS)
    assert job.returncode == 1
    root = errors[errors.index("Root Cause (first observed failure)") :]
    assert "rank      : 1 (local_rank: 1)" in root and "ValueError: something is wrong here" in root


@pytest.mark.slow
@needs_mpi
def test_two_launchers_meet():
    where = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{free_port()}", "--rdzv-id", "job"]
    jobs = [launch("--nnodes", "1:2", "--nproc-per-node", "1", *where, PROGRAM) for _ in range(2)]
    outs = [job.communicate(timeout=SECONDS) for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], outs
    assert sorted(out for out, _ in outs) == [f"rank {r} of 2, local 0: 3, restarts 0\n" for r in (0, 1)]


@pytest.mark.slow
def test_signals_are_passed_on():
    job = launch("--standalone", PROGRAM, "sleep")
    assert job.stdout.readline() == "ready\n"
    job.send_signal(signal.SIGTERM)
    out, _ = job.communicate(timeout=SECONDS)
    assert out == "told to end\n" and job.returncode == 128 + signal.SIGTERM


def test_options():
    args = parse_args(["--nproc_per_node", "2", "-m", "package.train", "--lr", "1"])
    assert args.nproc_per_node == "2" and args.module and args.training_script_args == ["--lr", "1"]
    assert parse_min_max_nnodes("1:3") == (1, 3) and determine_local_world_size("cpu") >= 1
    for wrong in ("3:1", "a", "1:2:3"):
        with pytest.raises(RuntimeError, match="nnodes"):
            parse_min_max_nnodes(wrong)
    with pytest.raises(ValueError, match="Unsupported nproc_per_node value"):
        determine_local_world_size("many")
