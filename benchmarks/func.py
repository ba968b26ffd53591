"""Transforms of functions (`func`): gradients per sample, jacobians and hessians of three networks, on flambeau and on PyTorch.

    python benchmarks/func.py [--rounds 3] [--only NAME,NAME]

Each framework runs in a process of its own, in turn; of the rounds the shortest time counts. Prints every case and the
geometric mean of the ratios (PyTorch's time over flambeau's). Needs PyTorch beside flambeau.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any


def networks(T: Any) -> dict[str, tuple[Any, tuple[int, ...], Any]]:
    """Networks that are small enough for second derivatives: (module, shape of a sample, its target)."""
    nn = T.nn

    class Attending(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True)
            self.head = nn.Linear(16, 4)

        def forward(self, x: Any) -> Any:
            return self.head(self.layer(x).mean(-2))

    mlp = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4))
    cnn = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.GroupNorm(4, 16), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 4),
    )  # fmt: skip
    return {"mlp": (mlp, (16,), 4), "cnn": (cnn, (1, 8, 8), 4), "transformer": (Attending(), (6, 16), 4)}


def cases(T: Any) -> dict[str, Callable[[], Any]]:
    func, F = T.func, T.nn.functional
    found: dict[str, Callable[[], Any]] = {}
    for name, (net, shape, classes) in networks(T).items():
        values = {key: p.detach() for key, p in net.named_parameters()}
        x, y = T.randn(32, *shape), T.randint(0, classes, (32,))

        def run(values: Any, x: Any, net: Any = net) -> Any:
            return func.functional_call(net, values, (x.unsqueeze(0),)).squeeze(0)

        def loss(values: Any, x: Any, y: Any, run: Any = run) -> Any:
            return F.cross_entropy(run(values, x).unsqueeze(0), y.unsqueeze(0))

        def norm(values: Any, x: Any, run: Any = run) -> Any:
            return run(values, x).square().sum()

        def case(label: str, f: Any, *args: Any, name: str = name) -> None:
            found[f"{name}: {label}"] = lambda: f(*args)

        rows, columns, second = func.jacrev(run, argnums=1), func.jacfwd(run, argnums=1), func.hessian(norm, argnums=1)
        case("vmap(grad)", func.vmap(func.grad(loss), in_dims=(None, 0, 0)), values, x, y)
        case("jacrev by parameters", func.jacrev(run), values, x[0])
        case("vmap(jacrev)", func.vmap(rows, in_dims=(None, 0)), values, x)
        case("jacfwd", columns, values, x[0])
        case("vmap(jacfwd)", func.vmap(columns, in_dims=(None, 0)), values, x[:8])
        case("hessian", second, values, x[0])
        case("vmap(hessian)", func.vmap(second, in_dims=(None, 0)), values, x[:8])
    return found


def shortest(call: Callable[[], Any], seconds: float = 0.4) -> float:
    for _ in range(3):
        call()
    best, end = math.inf, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def measure(framework: str, names: list[str]) -> dict[str, float]:
    warnings.simplefilter("ignore")
    T = importlib.import_module(framework)
    T.manual_seed(0)
    with T.nn.attention.sdpa_kernel(
        [T.nn.attention.SDPBackend.MATH]
    ):  # the only one that PyTorch differentiates forwards
        return {
            name: shortest(call) for name, call in cases(T).items() if not names or any(part in name for part in names)
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="parts of names")
    parser.add_argument("--framework", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.framework:
        print(json.dumps(measure(chosen.framework, [part.strip() for part in chosen.only.split(",") if part])))
        return
    best: dict[str, dict[str, float]] = {"flambeau": {}, "torch": {}}
    for _ in range(chosen.rounds):
        for framework, times in best.items():
            command = [sys.executable, __file__, "--only", chosen.only, "--framework", framework]
            found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
            for name, seconds in found.items():
                times[name] = min(seconds, times.get(name, math.inf))
    ratios = {name: best["torch"][name] / seconds for name, seconds in best["flambeau"].items()}
    print("| case | PyTorch, ms | flambeau, ms | ratio |\n| --- | ---: | ---: | ---: |")
    for name, ratio in ratios.items():
        print(f"| {name} | {1e3 * best['torch'][name]:.2f} | {1e3 * best['flambeau'][name]:.2f} | {ratio:.2f} |")
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    print(f"\n{sum(r >= 1 for r in ratios.values())} of {len(ratios)} ahead; geometric mean {mean:.2f}")


if __name__ == "__main__":
    main()
