"""Checks the cost model of `docs/scaling.md` between network namespaces whose links have a limited bandwidth.

    sudo python benchmarks/network.py [--rates 200 1000] [--processes 2 4] [--json FILE]

Each process has a namespace of its own, joined to the others by a bridge; `tc` (tbf) limits what each may send, in Mbit/s. Latency
and bandwidth are found from messages between two processes (send and recv), and what the model says for collectives and for steps of
DistributedDataParallel is printed beside what was measured. Needs root and iproute2.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SIZES = [64, 16384, 262144, 2097152]
NAME = f"fbn{os.getpid() % 10000}"


def process() -> None:
    """One process: the shortest times in seconds, which rank 0 prints."""
    import flambeau as torch
    import flambeau.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    found: dict[str, float] = {}

    def timed(name: str, call: Any, repeats: int) -> None:
        call()
        times = torch.zeros(repeats, dtype=torch.float64)
        for i in range(repeats):
            dist.barrier()
            start = time.perf_counter()
            call()
            times[i] = time.perf_counter() - start
        dist.all_reduce(times, dist.ReduceOp.MAX)  # a call is done when the last process has its result
        found[name] = times.min().item()  # others use this machine, too

    def there_and_back(x: Any) -> None:
        if rank == 0:
            dist.send(x, 1)
            dist.recv(x, 1)
        elif rank == 1:
            dist.recv(x, 0)
            dist.send(x, 0)

    for nbytes in SIZES:
        repeats = 40 if nbytes < 1 << 17 else 8
        x = torch.ones(nbytes // 4)
        part = torch.ones(nbytes // 4 // size)
        timed(f"message {nbytes}", lambda x=x: there_and_back(x), repeats)
        timed(f"all_reduce {nbytes}", lambda x=x: dist.all_reduce(x), repeats)
        timed(
            f"all_gather {nbytes}", lambda x=x, p=part: dist.all_gather_into_tensor(x[: p.numel() * size], p), repeats
        )
        timed(
            f"reduce_scatter {nbytes}",
            lambda x=x, p=part: dist.reduce_scatter_tensor(p, x[: p.numel() * size]),
            repeats,
        )
        timed(f"broadcast {nbytes}", lambda x=x: dist.broadcast(x, 0), repeats)
    net = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256))  # 2.1 MB
    model, batch = torch.nn.parallel.DistributedDataParallel(net), torch.randn(64, 256)

    def step(module: Any) -> None:
        module(batch).sum().backward()

    timed("compute", lambda: step(net), 5)
    timed("step", lambda: step(model), 5)
    found["gradients"] = sum(p.numel() * 4 for p in net.parameters())
    if rank == 0:
        print(json.dumps(found), flush=True)
    dist.destroy_process_group()


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def world(size: int, rate: float) -> dict[str, float]:
    """What the processes measured, with links of so many Mbit/s."""
    hub, hosts = f"{NAME}h", [f"{NAME}n{i}" for i in range(size)]
    try:
        for name in (hub, *hosts):
            ip("netns", "add", name)
        ip("-n", hub, "link", "add", "br0", "type", "bridge")
        ip("-n", hub, "link", "set", "br0", "up")
        for i, host in enumerate(hosts):
            ip("link", "add", "eth0", "netns", host, "type", "veth", "peer", "name", f"port{i}", "netns", hub)
            ip("-n", hub, "link", "set", f"port{i}", "master", "br0", "up")
            ip("-n", host, "addr", "add", f"10.78.0.{i + 1}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                ip("-n", host, "link", "set", device, "up")
            limit = [
                "tc",
                "qdisc",
                "add",
                "dev",
                "eth0",
                "root",
                "tbf",
                "rate",
                f"{rate}mbit",
                "burst",
                "32k",
                "latency",
                "200ms",
            ]
            subprocess.run(["ip", "netns", "exec", host, *limit], check=True)
        shared = {
            **os.environ,
            "WORLD_SIZE": str(size),
            "MASTER_ADDR": "10.78.0.1",
            "MASTER_PORT": "29666",
            "PYTHONPATH": str(ROOT),
        }
        command = [sys.executable, __file__, "--process"]
        started = [
            subprocess.Popen(["ip", "netns", "exec", h, *command], env={**shared, "RANK": str(r)}, stdout=-1, text=True)
            for r, h in enumerate(hosts)
        ]
        outs = [each.communicate(timeout=400)[0] for each in started]
        return json.loads(outs[0].strip().splitlines()[-1])
    finally:
        for name in (hub, *hosts):
            subprocess.run(["ip", "netns", "del", name], check=False)


def compared(found: dict[str, float], size: int) -> list[tuple[str, float, float]]:
    """(what, seconds as the model says, seconds as measured)."""
    sys.path.insert(0, str(ROOT))
    from flambeau.distributed._costs import Link, overlapped

    most = SIZES[-1]
    latency = found[f"message {SIZES[0]}"] / 2
    link = Link(latency, most / (found[f"message {most}"] / 2 - latency))
    rows = [("latency", latency, latency), ("bandwidth", link.bandwidth, link.bandwidth)]
    for name in ("all_reduce", "all_gather", "reduce_scatter", "broadcast"):
        for nbytes in SIZES:
            rows.append((f"{name} {nbytes}", getattr(link, name)(nbytes, size), found[f"{name} {nbytes}"]))
    compute = found["compute"]
    rows.append(
        ("DDP step", compute + overlapped(compute, link.all_reduce(found["gradients"], size), 2), found["step"])
    )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=float, nargs="*", default=[200.0, 1000.0])
    parser.add_argument("--processes", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--process", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.process:
        process()
        return
    kept: dict[str, Any] = {}
    print(
        "| Mbit/s | processes | call | bytes | model ms | measured ms | ratio |\n| --- | --- | --- | --- | --- | --- | --- |"
    )
    for rate in chosen.rates:
        for size in chosen.processes:
            rows = kept[f"{rate} {size}"] = compared(world(size, rate), size)
            for what, model, measured in rows[2:]:
                name, _, nbytes = what.rpartition(" ") if what[-1].isdigit() else (what, "", "")
                print(
                    f"| {rate:g} | {size} | {name} | {nbytes} | {model * 1e3:.2f} | {measured * 1e3:.2f} | {measured / model:.2f} |",
                    flush=True,
                )
            print(f"(latency {rows[0][1] * 1e6:.0f} us, bandwidth {rows[1][1] * 8e-6:.0f} Mbit/s)", flush=True)
    if chosen.json:
        chosen.json.write_text(json.dumps(kept, indent=1))


if __name__ == "__main__":
    main()
