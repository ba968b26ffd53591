"""What a service sees: requests a second of a small model, one sample each, answered by 1, 2 and 8 threads of one process. And what a
program of many small calls sees: a policy that learns to balance a pole (`examples/reinforce.py`), from one seed the same episodes on both.

    python benchmarks/services.py [--seconds 2] [--rounds 3] [--only flambeau]

Each framework runs in a process of its own, in turn; of the rounds the best counts. A request makes a tensor from a list of numbers, runs the
model without gradients and reads the answer. Frameworks are told to use one thread for an operation, as services do; besides
requests a second the table has the 50th and 99th percentile of the time that one takes, and the time of the processor, which does not
depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import runpy
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

MODELS = ("mlp", "gru", "transformer", "sentence")
THREADS = (1, 2, 8)
UPDATES = 15  # of the policy
EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def build(torch: Any, name: str) -> tuple[Any, list[Any]]:
    """A model and the numbers of one request."""
    nn = torch.nn
    torch.manual_seed(0)
    if name == "mlp":
        net: Any = nn.Sequential(
            nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4), nn.Softmax(-1)
        )
        return net, torch.rand(1, 32).tolist()
    if name == "gru":
        gru, top = nn.GRU(8, 32, batch_first=True), nn.Linear(32, 4)
        return (lambda x: top(gru(x)[0][:, -1])), torch.rand(1, 20, 8).tolist()
    if name == "sentence":  # of sixteen words, as an encoder of six layers that embeds sentences
        words, places = nn.Embedding(8000, 384), nn.Embedding(64, 384)
        norm = nn.LayerNorm(384)
        layer = nn.TransformerEncoderLayer(384, 12, 1536, 0.0, "gelu", batch_first=True)
        body = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).eval()

        def embed(x: Any) -> Any:
            hidden = body(norm(words(x) + places.weight[: x.shape[1]]))
            return nn.functional.normalize(hidden.mean(1), dim=-1)

        return embed, torch.randint(0, 8000, (1, 16)).tolist()
    layer = nn.TransformerEncoderLayer(64, 4, 128, 0.0, batch_first=True).eval()
    return layer, torch.rand(1, 16, 64).tolist()


def measure(torch: Any, name: str, threads: int, seconds: float) -> dict[str, float]:
    model, request = build(torch, name)
    times: list[list[float]] = [[] for _ in range(threads)]
    clock = time.perf_counter

    def serve(own: list[float], until: float) -> None:
        with torch.no_grad():
            while (start := clock()) < until:
                model(torch.tensor(request)).sum().item()
                own.append(clock() - start)

    serve([], clock() + 0.5)  # warm
    start, used = clock(), time.process_time()
    workers = [threading.Thread(target=serve, args=(own, start + seconds)) for own in times]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    spent, every = clock() - start, sorted(t for own in times for t in own)
    return {
        "rate": len(every) / spent,
        "p50": every[len(every) // 2] * 1e6,
        "p99": every[len(every) * 99 // 100] * 1e6,
        "processor": (time.process_time() - used) / len(every) * 1e6,
    }


def balance(framework: str) -> dict[str, float]:
    """Seconds of a reinforcement-learning run, of the clock and of the processor, and the length of the last episodes."""
    if framework == "flambeau":
        importlib.import_module(framework).install_as_torch(children=False)
    with contextlib.redirect_stdout(sys.stderr):
        learn = runpy.run_path(str(EXAMPLES / "reinforce.py"))["main"]
        learn(steps=1)  # warm
        wall, processor = time.perf_counter(), time.process_time()
        length = learn(steps=UPDATES)
    return {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor, "length": length}


def child(framework: str, seconds: float) -> None:
    torch = importlib.import_module(framework)
    torch.set_num_threads(1)
    found = {f"{name} {n}": measure(torch, name, n, seconds) for name in MODELS for n in THREADS}
    print(json.dumps([found, balance(framework)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["flambeau", "torch"])
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.seconds)
        return
    frameworks = [f for f in ("torch", "flambeau") if importlib.util.find_spec(f) and options.only in (None, f)]
    best: dict[str, dict[str, dict[str, float]]] = {f: {} for f in frameworks}
    runs: dict[str, list[dict[str, float]]] = {f: [] for f in frameworks}
    for _ in range(options.rounds):
        for f in frameworks:
            command = [sys.executable, __file__, "--child", f, "--seconds", str(options.seconds)]
            found, run = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            runs[f].append(run)
            for case, figures in found.items():
                if figures["rate"] > best[f].get(case, {"rate": 0})["rate"]:
                    best[f][case] = figures
    print(
        "| model, threads | "
        + " | ".join(f"{f}, requests/s | p50, µs | p99, µs | processor, µs" for f in frameworks)
        + " | ratio | of processor |"
    )
    print("| --- |" + " ---: | ---: | ---: | ---: |" * len(frameworks) + " ---: | ---: |")
    for case in best[frameworks[0]]:
        row = [best[f][case] for f in frameworks]
        ratios = (row[-1]["rate"] / row[0]["rate"], row[0]["processor"] / row[-1]["processor"])
        print(
            f"| {case} | "
            + " | ".join(f"{r['rate']:,.0f} | {r['p50']:,.0f} | {r['p99']:,.0f} | {r['processor']:,.0f}" for r in row)
            + f" | {ratios[0]:.1f} | {ratios[1]:.1f} |"
        )
    print(f"\n| a pole is balanced, {UPDATES} updates of 32 episodes | " + " | ".join(frameworks) + " | ratio |")
    print("| --- |" + " ---: |" * (len(frameworks) + 1))
    for title, key in (
        ("seconds", "wall"),
        ("of the processor", "processor"),
        ("steps of the last episodes", "length"),
    ):
        row = [min(run[key] for run in runs[f]) for f in frameworks]
        ratio = f"{row[0] / row[-1]:.1f}" if len(row) == 2 and key != "length" else ""
        print(f"| {title} | " + " | ".join(f"{x:.2f}" for x in row) + f" | {ratio} |")


if __name__ == "__main__":
    main()
