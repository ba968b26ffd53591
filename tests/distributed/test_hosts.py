"""Two machines, as network namespaces that a cable joins: processes of one share memory, those of both talk by TCP."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .world import SECONDS, environment, needs_mpi

PROGRAM = str(Path(__file__).parent / "launched.py")


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True)


@pytest.fixture
def hosts():
    if os.geteuid() or shutil.which("ip") is None:
        pytest.skip("needs root and the program ip, for network namespaces")
    mark = os.getpid() % 30000
    names, links = [f"flambeau{mark}{c}" for c in "ab"], [f"fb{mark}{c}" for c in "ab"]
    if any(ip("netns", "add", name).returncode for name in names):
        pytest.skip("network namespaces are not allowed here")
    ip("link", "add", links[0], "netns", names[0], "type", "veth", "peer", "name", links[1], "netns", names[1])
    for i, (name, link) in enumerate(zip(names, links), 1):
        ip("-n", name, "addr", "add", f"10.77.0.{i}/24", "dev", link)
        for device in (link, "lo"):
            ip("-n", name, "link", "set", device, "up")
    yield names
    for name in names:
        ip("netns", "del", name)


@pytest.mark.slow
@needs_mpi
def test_a_job_on_two_hosts(hosts):
    where = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "10.77.0.1:29555", "--rdzv-id", "job"]
    command = [sys.executable, "-m", "flambeau", "launch", "--nnodes", "2", "--nproc-per-node", "2", *where, PROGRAM]
    jobs = [
        subprocess.Popen(["ip", "netns", "exec", host, *command], env=environment(), stdout=-1, stderr=-1, text=True)
        for host in hosts
    ]
    try:
        outs = [job.communicate(timeout=SECONDS) for job in jobs]
    finally:
        for job in jobs:
            job.kill()
    assert [job.returncode for job in jobs] == [0, 0], outs
    lines = sorted(line for out, _ in outs for line in out.splitlines())
    assert lines == [f"rank {r} of 4, local {r % 2}: 10, restarts 0" for r in range(4)]
