"""Times compiled workloads beside the same work run eagerly, both ours, and says which steps their programs consist of.

    python benchmarks/compiled.py --bench DIR [-k NAME] [--rounds 7] [--threads N] [--clock]
    python benchmarks/compiled.py --bench DIR -k NAME --steps

DIR holds the bench's `workloads.py`, whose group `compile` is measured. Each workload is made twice in one process, once compiled and once
with the stance `force_eager`; rounds go by turns. A ratio is the eager time over the compiled one, by the best rounds of each; the middle of
the pairs' ratios is beside it. By default the time of the processor counts, all threads together, which other programs disturb less than
the clock.

`--steps` tells where the time of a workload's programs goes: each step becomes a native call of its own, which is timed.
"""

from __future__ import annotations

import argparse
import importlib
import math
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any


def workloads(folder: str, part: str) -> dict[str, Any]:
    sys.path.insert(0, folder)
    found = importlib.import_module("workloads").REGISTRY
    return {name: make for name, (group, make) in found.items() if group == "compile" and part in name}


def compare(T: Any, make: Any, rounds: int, clock: Callable[[], float], least: float) -> tuple[float, float, float]:
    """The best seconds of a call, eager and compiled, and the middle of the ratios."""
    T.manual_seed(0)
    compiled = make(T)
    T.manual_seed(0)
    eager = make(T)
    times: tuple[list[float], list[float]] = [], []
    counts = [0, 0]
    for turn in range(rounds + 1):
        for i, (call, stance) in enumerate(((eager, "force_eager"), (compiled, "default"))):
            with T.compiler.set_stance(stance):
                if not turn:
                    for _ in range(
                        40 if clocked(call, 4, clock) < 1e-3 else 3
                    ):  # small programs choose their form late
                        call()
                    counts[i] = max(1, int(least / max(clocked(call, 1, clock), 1e-9)))
                else:
                    times[i].append(clocked(call, counts[i], clock) / counts[i])
    return min(times[0]), min(times[1]), statistics.median([e / c for e, c in zip(*times)])


def clocked(call: Callable[[], Any], times: int, clock: Callable[[], float]) -> float:
    began = clock()
    for _ in range(times):
        call()
    return clock() - began


class Steps:
    """The time of each native call while every step is one."""

    def __init__(self, T: Any) -> None:
        from flambeau._compile.program import Lowered

        self.spent: dict[tuple[int, int], list[float]] = {}
        self.names: dict[tuple[int, int], str] = {}
        started, ends = Lowered.started, Lowered._ends

        def alone(low: Any, steps: Any, passing: Any) -> set[int]:
            ends(low, steps, passing)
            return set(range(len(steps)))

        def timed(low: Any, part: int, frame: Any, found: Any) -> Any:
            began = time.thread_time()
            left = started(low, part, frame, found)
            key = id(low), part
            self.spent.setdefault(key, []).append(time.thread_time() - began)
            if key not in self.names:
                self.names[key] = described(low, low.parts[part].steps[0])
            return left

        Lowered._ends = alone  # type: ignore[method-assign]
        Lowered.started = timed  # type: ignore[method-assign]

    def table(self, each: bool) -> None:
        own = {key: min(t) for key, t in self.spent.items()}
        total, kinds = sum(own.values()), dict[str, list[float]]()
        for key in own:
            kinds.setdefault(self.names[key].split("  ")[0], []).append(own[key])
            if each:
                print(f"{own[key] * 1e6:10.1f} us {own[key] / total:6.1%}  {key[1]:4}  {self.names[key]}")
        for name, times in sorted(kinds.items(), key=lambda item: -sum(item[1])):
            print(f"{sum(times) * 1e6:10.1f} us {sum(times) / total:6.1%}  {len(times):4}  {name}")
        print(f"{total * 1e6:10.1f} us together")


def described(low: Any, step: Any) -> str:
    """The operation that a step belongs to, its kernel, over what it goes, and how many bytes it may read in how many blocks."""
    name, walk = getattr(getattr(step, "ufunc", None), "__name__", ""), getattr(step, "walk", None)
    extents = " x ".join(map(str, (*walk.lead, *walk.cores))) if walk is not None else ""
    blocks = set(step.reads())
    return f"{low.nodes[step.node].name} {type(step).__name__} {name}  {extents}  {sum([m.nbytes for m in blocks])} in {len(blocks)}"


def main(words: list[str] | None = None) -> int:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--bench", required=True, help="the folder of the bench's workloads.py")
    made.add_argument("-k", default="", help="only workloads whose names have this")
    made.add_argument("--rounds", type=int, default=7)
    made.add_argument("--threads", type=int, default=0)
    made.add_argument("--least", type=float, default=0.1, help="seconds of a round (0.1)")
    made.add_argument("--clock", action="store_true", help="the clock's time instead of the processor's")
    made.add_argument("--steps", action="store_true", help="the time of each step of the programs")
    chosen = made.parse_args(words)
    import flambeau as T

    if chosen.threads:
        T.set_num_threads(chosen.threads)
    found = workloads(chosen.bench, chosen.k)
    if chosen.steps:
        steps = Steps(T)
        for name, make in found.items():
            call = make(T)
            steps.spent.clear()
            for _ in range(3 + 5 * chosen.rounds):
                call()
            print(name)
            steps.table(bool(chosen.k))
        return 0
    clock = time.perf_counter if chosen.clock else time.process_time
    ratios = []
    print("| workload | eager, ms | compiled, ms | ratio | middle of pairs |\n| --- | ---: | ---: | ---: | ---: |")
    for name, make in found.items():
        eager, compiled, middle = compare(T, make, chosen.rounds, clock, chosen.least)
        ratios.append(eager / compiled)
        print(
            f"| {name} | {eager * 1e3:.3f} | {compiled * 1e3:.3f} | {eager / compiled:.2f} | {middle:.2f} |", flush=True
        )
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"\nnone slower: {sum(r >= 1 for r in ratios)} of {len(ratios)}; geometric mean {mean:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
