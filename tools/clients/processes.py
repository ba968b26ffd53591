"""Starts a program in two processes and gives what its first one found."""

import json
import os
import pathlib
import subprocess
import sys

PROGRAMS = pathlib.Path(__file__).parent / "programs"


def found(program, launch=True):
    """The numbers after RESULT; `launch`: whether torchrun starts the processes (else the program does)."""
    start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"] if launch else []
    command = [sys.executable, *start, str(PROGRAMS / program)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=500, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert done.returncode == 0 and lines, done.stdout + done.stderr
    return json.loads(lines[-1].removeprefix("RESULT "))
