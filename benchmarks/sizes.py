"""What other sizes cost a compiled function: `python benchmarks/sizes.py [workload ...]`.

For each workload: a first eager call with a new size, recording and lowering a program for it, and then calls in turn with all sizes, eager and compiled.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau import nn

F = nn.functional
Workload = tuple[Callable[..., Any], list[tuple[Any, ...]]]


def chain() -> Workload:
    """Pointwise operations and a norm, other numbers of rows."""
    w = torch.randn(256)

    def run(x: Any) -> Any:
        y = F.layer_norm(torch.tanh(x * w + 1) * torch.sigmoid(x), (256,))
        return (y.exp() * 0.5 + x).relu()

    return run, [(torch.randn(100 + 7 * i, 256),) for i in range(30)]


def step() -> Workload:
    """A training step of an MLP, other batch sizes."""
    model = nn.Sequential(
        nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def run(x: Any, target: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss

    return run, [(torch.randn(32 + 3 * i, 64), torch.randint(0, 10, (32 + 3 * i,))) for i in range(30)]


def layers() -> Workload:
    """Two layers of a transformer, other lengths."""
    model = nn.ModuleList([nn.TransformerEncoderLayer(128, 4, 512, batch_first=True) for _ in range(2)]).eval()

    def run(x: Any) -> Any:
        with torch.no_grad():
            for layer in model:
                x = layer(x)
        return x

    return run, [(torch.randn(1, 20 + 5 * i, 128),) for i in range(30)]


def tokens() -> Workload:
    """A small decoder without a cache, one token more in each call."""
    words, places, head = nn.Embedding(200, 64), nn.Embedding(256, 64), nn.Linear(64, 200)
    model = nn.ModuleList([nn.TransformerEncoderLayer(64, 4, 256, batch_first=True) for _ in range(2)]).eval()

    def run(x: Any) -> Any:
        with torch.no_grad():
            n = x.shape[1]
            mask = torch.triu(torch.full((n, n), float("-inf")), 1)
            y = words(x) + places(torch.arange(n))
            for layer in model:
                y = layer(y, mask)
            return head(y[:, -1])

    return run, [(torch.randint(0, 200, (1, 8 + i)),) for i in range(30)]


def lstm() -> Workload:
    """A recurrent layer, other lengths."""
    model, head = nn.LSTM(32, 64, batch_first=True), nn.Linear(64, 10)

    def run(x: Any) -> Any:
        with torch.no_grad():
            return head(model(x)[0])

    return run, [(torch.randn(4, 8 + i, 32),) for i in range(30)]


def timed(function: Any, sizes: list[tuple[Any, ...]]) -> float:
    """Milliseconds of a call, in the median over sizes."""
    times = []
    for args in sizes:
        start = time.perf_counter()
        function(*args)
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def main() -> None:
    known = {function.__name__: function for function in (chain, step, layers, tokens, lstm)}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", default=list(known))
    print("| workload | new size, eager | recorded | lowered | eager | compiled |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name in parser.parse_args().workloads:
        torch.manual_seed(0)
        run, sizes = known[name]()
        compiled = torch.compile(run, dynamic=False, recompile_limit=100)
        for args in sizes[:3]:  # kernels, and what is found out once
            for _ in range(3):
                run(*args)
                compiled(*args)
        new = timed(run, sizes[3:])
        recorded, lowered = timed(compiled, sizes[3:]), timed(compiled, sizes[3:])
        usual = [min([timed(f, sizes) for _ in range(12)]) for f in (run, compiled)]
        print(f"| {name} | " + " | ".join([f"{t:.2f} ms" for t in (new, recorded, lowered, *usual)]) + " |")


if __name__ == "__main__":
    main()
