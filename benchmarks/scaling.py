"""Time against size for five operations over four decades, beside what the machine can do at most.

    python benchmarks/scaling.py [--picture scaling.png]

The limits are measured in the same run: memory bandwidth by copying arrays far larger than the caches with all
cores, and the matrix rate by chains of fused multiply-adds that stay in registers. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import flambeau as torch
from flambeau._backend import threads
from flambeau._kernel.building import jit
from flambeau._kernel.render.tiles import vectors
from flambeau._kernel.threads import pool

F = torch.nn.functional


def best(call: Callable[[], Any], seconds: float = 0.4) -> float:
    """The shortest time of one call."""
    call()
    shortest, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest


def bandwidth() -> float:
    """Bytes a second, read and written, when every core copies."""
    count = threads.get_num_threads()
    source, target = np.ones(count << 23, np.float32), np.zeros(count << 23, np.float32)
    parts = threads.ranges(len(source))
    seconds = best(lambda: threads.over(parts, lambda a, b: np.copyto(target[a:b], source[a:b])), 1.0)
    return 2 * source.nbytes / seconds


def matrix_rate() -> float:
    """Floating-point operations a second of float32 multiply-adds on all cores."""
    lanes, chains, rounds = vectors()[0] // 4, 16, 20_000
    kind = f"<{lanes} x float>"
    body = [f"  %a{i} = phi {kind} [ zeroinitializer, %entry ], [ %b{i}, %loop ]" for i in range(chains)]
    body += [f"  %b{i} = call {kind} @llvm.fma.v{lanes}f32({kind} %a{i}, {kind} %x, {kind} %x)" for i in range(chains)]
    total = "%b0"
    last = []
    for i in range(1, chains):
        last.append(f"  %t{i} = fadd {kind} {total}, %b{i}")
        total = f"%t{i}"
    text = "\n".join([
        f"declare {kind} @llvm.fma.v{lanes}f32({kind}, {kind}, {kind})",
        'define void @rate(ptr %args, ptr %dims, ptr %steps, ptr %data) nounwind "prefer-vector-width"="512" {', "entry:",
        "  %place = load ptr, ptr %args", f"  %x = load {kind}, ptr %place, align 4", "  br label %loop", "loop:",
        "  %n = phi i64 [ 0, %entry ], [ %m, %loop ]", *body, "  %m = add i64 %n, 1",
        f"  %more = icmp slt i64 %m, {rounds}", "  br i1 %more, label %loop, label %end", "end:", *last,
        f"  store {kind} {total}, ptr %place, align 4", "  ret void", "}",
    ])  # fmt: skip
    address, count = jit.compile("rate", text), threads.get_num_threads()
    rooms = [np.full(64, 1e-3, np.float32) for _ in range(count)]
    calls = [(address, [room.ctypes.data], [1], [0]) for room in rooms]
    return 2 * lanes * chains * rounds * count / best(lambda: pool.run_calls(calls, count))


def cases() -> list[tuple[str, str, str, list[int], Callable[[int], tuple[Callable[[], Any], float]]]]:
    """(name, what a size means, "memory" or "matrix", sizes, size -> (call, bytes or operations))."""

    def add(n: int) -> tuple[Callable[[], Any], float]:
        a, b = torch.randn(n), torch.randn(n)
        return lambda: a + b, 12.0 * n

    def softmax(n: int) -> tuple[Callable[[], Any], float]:
        a = torch.randn(max(1, n // 1024), 1024)
        return lambda: torch.softmax(a, 1), 8.0 * a.numel()

    def matmul(n: int) -> tuple[Callable[[], Any], float]:
        a, b = torch.randn(n, n), torch.randn(n, n)
        return lambda: a @ b, 2.0 * n**3

    def conv(n: int) -> tuple[Callable[[], Any], float]:
        x, w = torch.randn(n, 64, 28, 28), torch.randn(64, 64, 3, 3)
        return lambda: F.conv2d(x, w, padding=1), 2.0 * n * 64 * 64 * 9 * 28 * 28

    def attention(n: int) -> tuple[Callable[[], Any], float]:
        q = torch.randn(1, 4, n, 64)
        return lambda: F.scaled_dot_product_attention(q, q, q), 4.0 * 4 * n * n * 64

    return [
        ("add", "elements", "memory", [10**3, 10**4, 10**5, 10**6, 10**7, 3 * 10**7], add),
        ("softmax", "elements", "memory", [10**3, 10**4, 10**5, 10**6, 10**7, 3 * 10**7], softmax),
        ("matmul", "rows", "matrix", [16, 64, 256, 1024, 2048], matmul),
        ("conv 3x3", "images", "matrix", [1, 4, 16, 64, 256], conv),
        ("attention", "positions", "matrix", [32, 128, 512, 2048, 4096], attention),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--picture", help="also draw the table")
    chosen = parser.parse_args()
    limits = {"memory": bandwidth(), "matrix": matrix_rate()}
    print(
        f"{threads.get_num_threads()} threads, memory {limits['memory'] / 1e9:.1f} GB/s, matrix {limits['matrix'] / 1e9:.0f} GFLOP/s\n"
    )
    print("| operation | size | time | rate | of the limit |\n| --- | ---: | ---: | ---: | ---: |")
    curves = {}
    for name, unit, kind, sizes, make in cases():
        for size in sizes:
            call, amount = make(size)
            seconds = best(call)
            rate = amount / seconds
            what = "GB/s" if kind == "memory" else "GFLOP/s"
            print(
                f"| {name} | {size:,} {unit} | {1e6 * seconds:,.1f} µs | {rate / 1e9:.1f} {what} | {rate / limits[kind]:.0%} |",
                flush=True,
            )
            curves.setdefault(name, []).append((amount, rate / limits[kind]))
    if chosen.picture:
        draw(chosen.picture, curves)


def draw(path: str, curves: dict[str, list[tuple[float, float]]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    for name, points in curves.items():
        axes.semilogx([p[0] for p in points], [100 * p[1] for p in points], "o-", label=name)
    axes.set(xlabel="bytes moved or operations", ylabel="% of the machine's limit")
    axes.axhline(100, color="gray", linewidth=0.5)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
