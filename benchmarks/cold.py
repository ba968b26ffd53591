"""The first program on a machine: an import and one training step of four networks, without any compiled kernels of an earlier run.

    python benchmarks/cold.py                           # this checkout, and PyTorch if it is installed
    python benchmarks/cold.py --wheel dist/x.whl        # a wheel, installed in a fresh environment
    python benchmarks/cold.py --kernels                 # also which kernels are compiled, and how long each takes

Every measurement is a process of its own; the best of several is shown. Seconds of wall clock, and in brackets of processor time, which
does not depend on what else the machine does. Sizes are those of the files of a package and of all that it depends on.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NETWORKS = """
import json, os, sys, time
began = time.perf_counter(), time.process_time()
import NAME as torch
from NAME import nn
spent = [("import", time.perf_counter() - began[0], time.process_time())]


def step(name, net, loss, lr=0.01):
    began = time.perf_counter(), time.process_time()
    optimizer = torch.optim.Adam(net.parameters(), lr)
    optimizer.zero_grad()
    loss(net).backward()
    optimizer.step()
    spent.append((name, time.perf_counter() - began[0], time.process_time() - began[1]))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.top = nn.LSTM(16, 32, batch_first=True), nn.Linear(32, 4)

    def forward(self, x):
        return self.top(self.cells(x)[0][:, -1])


torch.manual_seed(0)
classes = nn.CrossEntropyLoss()
target = torch.randint(0, 4, (8,))
mlp = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 4))
cnn = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 4),
)
layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
step("MLP", mlp, lambda net: classes(net(torch.randn(8, 20)), target))
step("CNN", cnn, lambda net: classes(net(torch.randn(8, 3, 16, 16)), target))
step("transformer", layer, lambda net: net(torch.randn(8, 12, 32)).pow(2).mean())
step("LSTM", Recurrent(), lambda net: classes(net(torch.randn(8, 12, 16)), target))
print(json.dumps(spent), file=sys.stderr)
"""

# Put before the program: says of every kernel what it is and how long the compiler took.
WATCH = """
import time
from flambeau._kernel.building import llvm
_compile = llvm.optimised
def watched(target, text):
    start = time.thread_time()
    made = _compile(target, text)
    name = next((line for line in text.splitlines() if line.startswith("define")), "")
    print(f"{time.thread_time() - start:.3f} s {len(text):8} characters: {name[:110]}")
    return made
llvm.optimised = watched
"""

# Bytes of a package, and with all that it depends on.
SIZES = """
import importlib.metadata as metadata, re, sys
def size(name, seen):
    name = re.split("[^A-Za-z0-9_.-]", name)[0].lower().replace("_", "-")
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return 0
    if name in seen:
        return 0
    seen.add(name)
    own = sum(p.stat().st_size for f in found.files or () if (p := f.locate()).is_file())
    sizes.append(own)
    return own + sum(size(r, seen) for r in found.requires or () if "extra ==" not in r)
sizes = []
whole = size(sys.argv[1], set())
print(*(sizes[:1] or [0]), whole)
"""


class Side:
    """A package in an environment."""

    def __init__(self, name: str, package: str, python: str, path: str = ""):
        self.name, self.package, self.python, self.path = name, package, python, path

    def run(self, code: str, cache: str, *arguments: str) -> tuple[float, subprocess.CompletedProcess[str]]:
        env = {k: v for k, v in os.environ.items() if k not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")}
        env |= {"FLAMBEAU_CACHE_DIR": cache, **({"PYTHONPATH": self.path} if self.path else {})}
        start = time.perf_counter()
        done = subprocess.run(
            [self.python, "-c", code, *arguments], env=env, cwd="/", capture_output=True, text=True, check=False
        )
        return time.perf_counter() - start, done

    def has_it(self) -> bool:
        return not self.run(f"import {self.package}", "")[1].returncode

    def measure(self, cache: str, before: str = "") -> dict[str, tuple[float, float]]:
        """Seconds by what they were spent on; `whole` is the process from its start to its end."""
        wall, done = self.run(before + NETWORKS.replace("NAME", self.package), cache)
        if done.returncode:
            raise SystemExit(done.stderr)
        print(done.stdout, end="")
        spent = {name: (wall, used) for name, wall, used in json.loads(done.stderr.strip().splitlines()[-1])}
        return {**spent, "whole": (wall, sum(used for _, used in spent.values()))}

    def sizes(self) -> str:
        own, whole = map(int, self.run(SIZES, "", self.package)[1].stdout.split() or (0, 0))
        return (
            f"{own / 1e6:.0f} MB, with what it depends on {whole / 1e6:.0f} MB" if own else "not installed, a checkout"
        )


COLUMNS = ("import", "MLP", "import + MLP", "CNN", "transformer", "LSTM", "whole")


def row(side: Side, title: str, turns: int, kept: bool, before: str = "") -> None:
    """The best of several processes, each with an empty cache, or all after one that has filled it."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        if kept:
            side.measure(folder)
        for turn in range(turns):
            found.append(side.measure(folder if kept else f"{folder}/{turn}", before))
    best = {name: [min(f[name][i] for f in found) for i in (0, 1)] for name in found[0]}
    best["import + MLP"] = [min(f["import"][i] + f["MLP"][i] for f in found) for i in (0, 1)]
    print(f"| {title} |", " | ".join(f"{best[name][0]:.2f} ({best[name][1]:.2f})" for name in COLUMNS), "|", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kernels", action="store_true", help="list the kernels that are compiled")
    parser.add_argument("--only", choices=["flambeau", "torch"], help="measure one side")
    parser.add_argument("--wheel", help="of flambeau, to be installed in a fresh environment")
    parser.add_argument("--turns", type=int, default=3, help="processes for each row (3)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ours = Side("flambeau", "flambeau", sys.executable, str(ROOT))
        if options.wheel and options.only != "torch":
            wheel = Path(options.wheel).resolve()
            ours = Side("flambeau", "flambeau", f"{folder}/env/bin/python")
            subprocess.run([sys.executable, "-m", "venv", f"{folder}/env"], check=True)
            subprocess.run([ours.python, "-m", "pip", "install", "-q", str(wheel)], check=True)
            print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
        theirs = Side("PyTorch", "torch", sys.executable)
        sides = [s for s in (ours, theirs) if options.only in (None, s.package) and s.has_it()]
        for side in sides:
            print(f"{side.name}: {side.sizes()}")
        print(f"\n| seconds, of processor in brackets | {' | '.join(COLUMNS)} |\n|{' --- |' * (len(COLUMNS) + 1)}")
        for side in sides:
            row(
                side, f"{side.name}, first run", options.turns, False, WATCH if options.kernels and side is ours else ""
            )
            row(side, f"{side.name}, later runs", options.turns, True)


if __name__ == "__main__":
    main()
