"""The first program on a machine: an import and one training step of four networks, without any compiled kernels.

    python benchmarks/cold.py                  # flambeau with an empty and with a filled cache, PyTorch if it is installed
    python benchmarks/cold.py --kernels        # also which kernels flambeau compiled, and how long each took

Every measurement is a process of its own: seconds of wall clock and of processor time, from its start to its end.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import subprocess
import sys
import tempfile
import time

NETWORKS = """
import sys, time
start = time.perf_counter()
import NAME as torch
from NAME import nn
print(f"import {time.perf_counter() - start:.2f}", end="", file=sys.stderr)


def step(name, net, loss, lr=0.01):
    start = time.perf_counter()
    optimizer = torch.optim.Adam(net.parameters(), lr)
    optimizer.zero_grad()
    loss(net).backward()
    optimizer.step()
    print(f", {name} {time.perf_counter() - start:.2f}", end="", file=sys.stderr)


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
step("mlp", mlp, lambda net: classes(net(torch.randn(8, 20)), target))
step("cnn", cnn, lambda net: classes(net(torch.randn(8, 3, 16, 16)), target))
step("transformer", layer, lambda net: net(torch.randn(8, 12, 32)).pow(2).mean())
step("lstm", Recurrent(), lambda net: classes(net(torch.randn(8, 12, 16)), target))
print(file=sys.stderr)
"""

# Put before the program: says of every kernel what it is and how long the compiler took.
WATCH = """
import time
from flambeau._kernel import llvm
_compile = llvm.optimised
def watched(target, text):
    start = time.thread_time()
    made = _compile(target, text)
    name = next((line for line in text.splitlines() if line.startswith("define")), "")
    print(f"{time.thread_time() - start:.3f} s {len(text):8} characters: {name[:110]}")
    return made
llvm.optimised = watched
"""


def measure(name: str, package: str, cache: str, before: str = "") -> None:
    env = {**os.environ, "FLAMBEAU_CACHE_DIR": cache}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    used, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    code = before + NETWORKS.replace("NAME", package)
    done = subprocess.run([sys.executable, "-c", code], env=env, stderr=subprocess.PIPE, text=True)
    wall = time.perf_counter() - start
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    if done.returncode:
        raise SystemExit(done.stderr)
    print(f"{name:24} {wall:6.2f} s, processor {spent:6.2f} s   ({done.stderr.strip()})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kernels", action="store_true", help="list the kernels that are compiled")
    parser.add_argument("--only", choices=["flambeau", "torch"], help="measure one side")
    options = parser.parse_args()
    if options.only != "torch":
        with tempfile.TemporaryDirectory() as cache:
            measure("flambeau, nothing kept", "flambeau", cache, WATCH if options.kernels else "")
            measure("flambeau, second run", "flambeau", cache)
    if options.only != "flambeau" and importlib.util.find_spec("torch"):
        with tempfile.TemporaryDirectory() as cache:
            measure("torch, first run", "torch", cache)
            measure("torch, second run", "torch", cache)


if __name__ == "__main__":
    main()
