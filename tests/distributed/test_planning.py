"""The cost model by hand-made numbers, and `flambeau plan` on a small program."""

import subprocess
import sys

import pytest

from flambeau.distributed._costs import Cluster, Link, Work, strategies

from .world import environment

GIB = 2**30


def test_collectives_by_latency_and_bandwidth():
    link = Link(1e-3, 1e6)
    assert link.all_reduce(1000, 1) == 0 and link.message(1000) == pytest.approx(2e-3)
    assert link.all_reduce(10, 8) == pytest.approx(3 * (1e-3 + 1e-5))  # few rounds of everything
    assert link.all_reduce(8e6, 8) == pytest.approx(6e-3 + 14.0)  # two times seven eighths of it
    assert link.all_gather(8e6, 8) == pytest.approx(3e-3 + 7.0) == link.reduce_scatter(8e6, 8)
    assert Link(1e-3, 1e6, ring=True).all_gather(8e6, 8) == pytest.approx(7e-3 + 7.0)
    assert link.broadcast(100, 4) == pytest.approx(2 * 1.1e-3)


def test_strategies_trade_memory_for_traffic():
    work = Work(4 * GIB, 4 * GIB, 8 * GIB, 2 * GIB, 1e15, layers=16, largest=GIB / 4)
    found = {cost.name.split(" (")[0]: cost for cost in strategies(work, Cluster(8, 8, flops=400e12))}
    assert list(found) == ["one process", "DDP", "FSDP", "HSDP", "2-D"]
    alone, ddp, fsdp, hsdp = (found[name] for name in ("one process", "DDP", "FSDP", "HSDP"))
    assert alone.seconds == pytest.approx(2.5) and ddp.memory == alone.memory == 18 * GIB
    assert fsdp.memory == pytest.approx(16 * GIB / 64 + 0.5 * GIB + 2 * GIB) and fsdp.memory < hsdp.memory < ddp.memory
    assert all(cost.seconds >= alone.seconds for cost in found.values())
    slow = Cluster(512, 8, between=Link(1e-3, 50e9), flops=4e15)
    worse = {cost.name: cost for cost in strategies(work, slow)}
    assert worse["FSDP"].seconds > 1.5 * worse["HSDP (sharded in a host)"].seconds


@pytest.mark.slow
def test_plan_command(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(
        "import sys, torch\nnet = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256))\n"
        "opt = torch.optim.Adam(net.parameters())\nfor i in range(int(sys.argv[1])):\n"
        "    net(torch.ones(32, 256)).sum().backward()\n    opt.step()\n    print('step', i)\n"
    )
    command = [
        sys.executable,
        "-m",
        "flambeau",
        "plan",
        str(program),
        "50",
        "--hosts",
        "2",
        "--gpus",
        "4",
        "--tflops",
        "1",
    ]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert "step 0" in done.stdout and "step 2" not in done.stdout  # two steps are enough
    assert "2 MiB of parameters, 2 MiB of gradients, 4.01 MiB of optimizer state" in done.stdout
    rows = {line.split("  ")[0]: line for line in done.stdout.splitlines()}
    assert {"one process", "DDP", "FSDP", "HSDP (sharded in a host)", "2-D (tensor parallel 4 x FSDP 2)"} <= set(rows)
    assert "8.18 MiB" in rows["DDP"] and rows["one process"].endswith("100 %")
    program.write_text("print('no training')\n")
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=200)
    assert done.returncode == 1 and "made no step of an optimizer" in done.stderr
