"""Collective calls of two (or more) processes on one machine: flambeau's engine beside PyTorch's gloo.

    python benchmarks/collectives.py [--processes 2] [--rounds 2] [--only all_reduce,broadcast] [--largest 67108864]

Each framework runs in processes of its own, in turn; of the rounds the shortest median counts. Prints microseconds for each
call from 8 bytes to 64 MB, the ratio, and how many are ahead or level (within 5 %). Needs PyTorch beside flambeau.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SIZES = [8, 128, 2048, 32768, 524288, 4194304, 16777216, 67108864]
CALLS = ["all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all"]


def calls(torch: Any, dist: Any, nbytes: int, size: int) -> dict[str, Any]:
    """Each call on so many bytes in every process: of the whole for reductions, of all parts for the others."""
    count = max(nbytes // 4, size)
    whole = torch.ones(count)
    part = torch.ones(count // size)
    out, zeros = torch.zeros(count // size * size), torch.zeros(count)
    return {
        "all_reduce": lambda: dist.all_reduce(zeros),
        "broadcast": lambda: dist.broadcast(whole, 0),
        "all_gather": lambda: dist.all_gather_into_tensor(out, part),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, out),
        "all_to_all": lambda: dist.all_to_all_single(out, whole[: count // size * size]),
    }


def process(name: str, only: list[str], largest: int) -> None:
    """One process of one framework; rank 0 prints its times."""
    torch = importlib.import_module(name)
    dist = importlib.import_module(name + ".distributed")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    found = {}
    for nbytes in SIZES:
        if nbytes > largest:
            break
        for what, call in calls(torch, dist, nbytes, dist.get_world_size()).items():
            if what not in only:
                continue
            for _ in range(3):
                call()
            repeats = max(5, min(200, (1 << 25) // nbytes))
            times = []
            for _ in range(repeats):
                dist.barrier()
                start = time.perf_counter()
                call()
                times.append(time.perf_counter() - start)
            found[f"{what} {nbytes}"] = statistics.median(times) * 1e6
    if dist.get_rank() == 0:
        print(json.dumps(found))
    dist.destroy_process_group()


def world(name: str, processes: int, only: str, largest: int) -> dict[str, float]:
    """The times of one framework."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, __file__, "--process", name, "--only", only, "--largest", str(largest)]
    path = os.pathsep.join([str(Path(__file__).resolve().parent.parent), os.environ.get("PYTHONPATH", "")])
    shared = {
        **os.environ, "WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "PYTHONPATH": path,
        "PYTHONWARNINGS": "ignore",
    }  # fmt: skip
    started = [
        subprocess.Popen(command, env={**shared, "RANK": str(r)}, stdout=-1, text=True) for r in range(processes)
    ]
    outs = [each.communicate()[0] for each in started]
    return json.loads(outs[0].strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", default=",".join(CALLS))
    parser.add_argument("--largest", type=int, default=SIZES[-1])
    parser.add_argument("--process")
    args = parser.parse_args()
    if args.process:
        process(args.process, args.only.split(","), args.largest)
        return
    best: dict[str, dict[str, float]] = {"torch": {}, "flambeau": {}}
    for _ in range(args.rounds):
        for name, kept in best.items():
            for what, value in world(name, args.processes, args.only, args.largest).items():
                kept[what] = min(value, kept.get(what, value))
    ahead = 0
    print(f"{'call':16}{'bytes':>10}{'PyTorch µs':>12}{'flambeau µs':>13}{'ratio':>8}")
    for what in sorted(best["torch"], key=lambda text: (CALLS.index(text.split()[0]), int(text.split()[1]))):
        theirs, ours = best["torch"][what], best["flambeau"][what]
        ahead += ours <= 1.05 * theirs
        print(f"{what.split()[0]:16}{what.split()[1]:>10}{theirs:12.1f}{ours:13.1f}{theirs / ours:8.2f}")
    print(f"ahead or level in {ahead} of {len(best['torch'])}")


if __name__ == "__main__":
    main()
