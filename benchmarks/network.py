"""Checks the cost model of `docs/scaling.md` between network namespaces whose links have a limited bandwidth and a latency.

    sudo python benchmarks/network.py [--rates 50 200] [--latencies 0 5] [--processes 2 4] [--json FILE]

Each process has a namespace of its own with one network device, whose frames a relay passes on to the others: not faster than so many
Mbit/s, and so many milliseconds later. What a link really does is found from messages between two processes (send and recv), and what the
model says for collectives and for steps of DistributedDataParallel is printed beside what was measured. Needs root and iproute2.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import heapq
import itertools
import json
import os
import selectors
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SIZES = [64, 16384, 262144, 2097152]
NAME = f"fbn{os.getpid() % 10000}"
LONGEST = 9000  # bytes of a packet
SET_INTERFACE, FRAMES, BARE = 0x400454CA, 0x0002, 0x1000  # of Linux' /dev/net/tun: TUNSETIFF, IFF_TAP, IFF_NO_PI


def process() -> None:
    """One process: the shortest times in seconds, which rank 0 prints."""
    import flambeau as torch
    import flambeau.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    found: dict[str, float] = {}

    def timed(name: str, call: Any, calls: int, rounds: int = 3) -> None:
        """Of so many calls in a row, each of which needs the one before: who leaves a barrier early waits in one of them only."""
        call(0)
        times = torch.zeros(rounds, dtype=torch.float64)
        for i in range(rounds):
            dist.barrier()
            start = time.perf_counter()
            for number in range(calls):
                call(number)
            times[i] = (time.perf_counter() - start) / calls
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
        calls = 20 if nbytes < 1 << 17 else 3
        x = torch.ones(nbytes // 4)
        part = torch.ones(nbytes // 4 // size)
        whole = x[: part.numel() * size]
        timed(f"message {nbytes}", lambda i, x=x: there_and_back(x), calls)
        timed(f"all_reduce {nbytes}", lambda i, x=x: dist.all_reduce(x), calls)
        timed(f"all_gather {nbytes}", lambda i, x=whole, p=part: dist.all_gather_into_tensor(x, p), calls)
        timed(f"reduce_scatter {nbytes}", lambda i, x=whole, p=part: dist.reduce_scatter_tensor(p, x), calls)
        timed(f"broadcast {nbytes}", lambda i, x=x: dist.broadcast(x, i % size), calls)
    net = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256))  # 2.1 MB
    model, batch = torch.nn.parallel.DistributedDataParallel(net), torch.randn(64, 256)

    def step(module: Any) -> None:
        module(batch).sum().backward()

    timed("compute", lambda i: step(net), 3)
    timed("step", lambda i: step(model), 3)
    found["gradients"] = sum(p.numel() * 4 for p in net.parameters())
    if rank == 0:
        print(json.dumps(found), flush=True)
    dist.destroy_process_group()


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def device(host: str) -> int:
    """The other end of a new device, eth0, in a namespace."""
    system = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/ns/net") as own, open(f"/var/run/netns/{host}") as other:
        if system.setns(other.fileno(), 0):
            raise OSError(ctypes.get_errno(), f"cannot enter the namespace {host}")
        try:
            found = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(found, SET_INTERFACE, struct.pack("16sH", b"eth0", FRAMES | BARE))
        finally:
            system.setns(own.fileno(), 0)
    return found


class Relay:
    """Passes frames on between devices. Each sends at most `rate` Mbit/s, and what it sends comes `latency` seconds later."""

    def __init__(self, devices: list[int], rate: float, latency: float):
        self.devices, self.rate, self.latency = devices, rate * 1e6 / 8, latency
        self._addresses: dict[bytes, int] = {}
        self._ends = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        self._ends = True
        self._thread.join()
        for each in self.devices:
            os.close(each)

    def _run(self) -> None:
        ready = selectors.DefaultSelector()
        for each in self.devices:
            ready.register(each, selectors.EVENT_READ)
        free = dict.fromkeys(self.devices, 0.0)  # when each has sent what it has
        under_way: list[tuple[float, int, int, bytes]] = []  # when, number, where to, what
        number = 0
        while not self._ends:
            now = time.monotonic()
            while under_way and under_way[0][0] <= now:
                _, _, target, frame = heapq.heappop(under_way)
                with contextlib.suppress(OSError):  # a device that is not up yet loses what comes
                    os.write(target, frame)
            wait = min(0.1, under_way[0][0] - now) if under_way else 0.1
            for key, _ in ready.select(max(wait, 0)):
                source = int(key.fd)
                frame = os.read(source, LONGEST + 100)
                free[source] = max(free[source], time.monotonic()) + len(frame) / self.rate
                self._addresses[frame[6:12]] = source
                target = self._addresses.get(frame[:6])
                for each in [target] if target is not None else [d for d in self.devices if d != source]:
                    number += 1
                    heapq.heappush(under_way, (free[source] + self.latency, number, each, frame))


def world(size: int, rate: float, latency: float) -> dict[str, float]:
    """What the processes measured, with links of so many Mbit/s and seconds."""
    hosts = [f"{NAME}n{i}" for i in range(size)]
    relay = None
    try:
        for host in hosts:
            ip("netns", "add", host)
        relay = Relay([device(host) for host in hosts], rate, latency)
        for i, host in enumerate(hosts):
            ip("-n", host, "addr", "add", f"10.78.0.{i + 1}/24", "dev", "eth0")
            ip("-n", host, "link", "set", "eth0", "mtu", str(LONGEST), "up")
            ip("-n", host, "link", "set", "lo", "up")
        shared = {"WORLD_SIZE": str(size), "MASTER_ADDR": "10.78.0.1", "MASTER_PORT": "29666", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, __file__, "--process"]
        started = [
            subprocess.Popen(
                ["ip", "netns", "exec", h, *command], env={**os.environ, **shared, "RANK": str(r)}, stdout=-1, text=True
            )
            for r, h in enumerate(hosts)
        ]
        outs = [each.communicate(timeout=400)[0] for each in started]
        return json.loads(outs[0].strip().splitlines()[-1])
    finally:
        if relay is not None:
            relay.close()
        for host in hosts:
            subprocess.run(["ip", "netns", "del", host], check=False)


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
    parser.add_argument("--rates", type=float, nargs="*", default=[50.0, 200.0])
    parser.add_argument("--latencies", type=float, nargs="*", default=[0.0, 5.0], help="milliseconds")
    parser.add_argument("--processes", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--process", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.process:
        process()
        return
    kept: dict[str, Any] = {}
    print("| Mbit/s | + ms | processes | call | bytes | model ms | measured ms | ratio |\n" + "| --- " * 8 + "|")
    for rate, latency, size in itertools.product(chosen.rates, chosen.latencies, chosen.processes):
        rows = kept[f"{rate} {latency} {size}"] = compared(world(size, rate, latency / 1e3), size)
        for what, model, measured in rows[2:]:
            name, _, nbytes = what.rpartition(" ") if what[-1].isdigit() else (what, "", "")
            print(
                f"| {rate:g} | {latency:g} | {size} | {name} | {nbytes} | {model * 1e3:.2f} | {measured * 1e3:.2f} | {measured / model:.2f} |",
                flush=True,
            )
        print(f"(latency {rows[0][1] * 1e6:.0f} us, bandwidth {rows[1][1] * 8e-6:.0f} Mbit/s)", flush=True)
    if chosen.json:
        chosen.json.write_text(json.dumps(kept, indent=1))


if __name__ == "__main__":
    main()
