"""Kinds of work that no other program here measures, on flambeau and on PyTorch.

    python benchmarks/kinds.py [--only PATTERN,PATTERN] [--rounds 8] [--threads N] [--memory]

Each framework runs in a process of its own; they take turns, a short run each, so that both meet the same moments of a
busy machine, and of all runs the shortest counts. With `--threads 1` the time of the processor is taken rather than that
of the clock. With `--memory` each kind is run once more in fresh processes and the table shows how far it raised their
peak. Needs PyTorch beside flambeau.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import json
import math
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import work_everyday
import work_images
import work_networks
import work_numerics
import work_programs
import work_sequences
from work import KINDS

assert (
    work_everyday and work_images and work_networks and work_numerics and work_programs and work_sequences
)  # they fill the table


def prepared(framework: str, name: str, threads: int) -> Callable[[], Any]:
    T = importlib.import_module(framework)
    if threads:
        T.set_num_threads(threads)
    T.manual_seed(0)
    return KINDS[name](T)


def shortest(call: Callable[[], Any], seconds: float, clock: Callable[[], float]) -> float:
    """The shortest time of one call; short calls are timed several at once."""
    start = clock()
    call()
    several = max(1, min(200, int(2e-4 / max(clock() - start, 1e-7))))
    best, end = math.inf, clock() + seconds
    while True:
        start = clock()
        for _ in range(several):
            call()
        stop = clock()
        best = min(best, (stop - start) / several)
        if stop > end:
            return best


def serve(framework: str, threads: int) -> None:
    """Reads names of kinds, one a line, and answers each with the time of a call."""
    warnings.simplefilter("ignore")
    ready: dict[str, Callable[[], Any]] = {}
    clock = time.process_time if threads == 1 else time.perf_counter
    for line in sys.stdin:
        name, seconds = json.loads(line)
        try:
            if name not in ready:
                ready = {name: prepared(framework, name, threads)}
                for _ in range(3):
                    ready[name]()
            answer: Any = shortest(ready[name], seconds, clock)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), flush=True)


def peak(framework: str, name: str, threads: int) -> float:
    """By how many MiB a kind of work raised the peak memory of this process, after a first call."""
    warnings.simplefilter("ignore")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    call = prepared(framework, name, threads)
    for _ in range(3):
        call()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="*", help="patterns of names, separated by commas")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.05, help="of a run")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        serve(chosen.serve, chosen.threads)
        return
    if chosen.peak:
        print(json.dumps(peak(*chosen.peak, chosen.threads)))
        return
    names = [n for n in KINDS if any(fnmatch.fnmatch(n, pattern) for pattern in chosen.only.split(","))]
    command = [sys.executable, __file__, "--threads", str(chosen.threads)]
    workers = {
        framework: subprocess.Popen(
            [*command, "--serve", framework], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for framework in ("torch", "flambeau")
    }
    print("| kind of work | PyTorch, µs | flambeau, µs | ratio |" + (" peak memory, MiB |" if chosen.memory else ""))
    print("| --- | ---: | ---: | ---: |" + (" ---: |" if chosen.memory else ""), flush=True)
    ratios = []
    for name in names:
        best = {framework: math.inf for framework in workers}
        error = ""
        for _ in range(chosen.rounds):
            for framework, worker in workers.items():
                assert worker.stdin and worker.stdout
                worker.stdin.write(json.dumps([name, chosen.seconds]) + "\n")
                worker.stdin.flush()
                answer = json.loads(
                    worker.stdout.readline() or json.dumps(f"its process died with status {worker.wait()}")
                )
                if isinstance(answer, str):
                    error = f"{framework}: {answer}"
                else:
                    best[framework] = min(best[framework], answer)
            if error:
                break
        if error:
            print(f"| {name} | {error} |", flush=True)
            continue
        ratio = best["torch"] / best["flambeau"]
        ratios.append(ratio)
        line = f"| {name} | {1e6 * best['torch']:.1f} | {1e6 * best['flambeau']:.1f} | {ratio:.2f} |"
        if chosen.memory:
            peaks = [
                float(
                    subprocess.run(
                        [*command, "--peak", framework, name], capture_output=True, text=True, check=True
                    ).stdout
                )
                for framework in workers
            ]
            line += " {:.0f} → {:.0f} |".format(*peaks)
        print(line, flush=True)
    for worker in workers.values():
        assert worker.stdin
        worker.stdin.close()
        worker.wait()
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        ahead = sum(ratio >= 1 for ratio in ratios)
        print(f"\n{ahead} of {len(ratios)} ahead; geometric mean {mean:.2f}; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
