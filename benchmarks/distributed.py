"""Training with DistributedDataParallel on several processes, on flambeau and on PyTorch's gloo; and memory with fully_shard.

    python benchmarks/distributed.py [--only mlp,cnn,gpt] [--size 2] [--rounds 5] [--steps 10] [--memory]

The worlds of both frameworks take turns, each step a batch for every process, and of all rounds the shortest counts. Every process
has one thread. With `--memory` a model of about 100 million parameters is divided among four processes, and the table shows
what each of them holds at rest and the peak of its whole process. Needs PyTorch beside flambeau.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any


def mlp(T: Any) -> tuple[Any, Callable[[Any], Any]]:
    nn = T.nn
    x, y = T.randn(64, 784), T.randint(0, 10, (64,))
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))
    return model, lambda m: nn.functional.cross_entropy(m(x), y)


def cnn(T: Any) -> tuple[Any, Callable[[Any], Any]]:
    nn = T.nn
    x, y = T.randn(32, 3, 32, 32), T.randint(0, 10, (32,))
    layers: list[Any] = []
    for before, after in ((3, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(2048, 10))
    return model, lambda m: nn.functional.cross_entropy(m(x), y)


def gpt(T: Any, width: int = 128, heads: int = 4, layers: int = 4, words: int = 512) -> Any:
    nn, F = T.nn, T.nn.functional

    class Block(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            b, t, c = x.shape
            q, k, v = (z.view(b, t, heads, c // heads).transpose(1, 2) for z in self.qkv(self.first(x)).split(c, dim=2))
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(a.transpose(1, 2).reshape(b, t, c))
            return x + self.narrow(F.gelu(self.wide(self.second(x))))

    class GPT(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(64, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

        def forward(self, tokens: Any) -> Any:
            x = self.words(tokens) + self.places(T.arange(tokens.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    tokens = T.randint(0, words, (8, 65))
    loss = lambda m: F.cross_entropy(m(tokens[:, :-1]).reshape(-1, words), tokens[:, 1:].reshape(-1))
    return GPT(), loss


CASES: dict[str, Callable[[Any], Any]] = {"mlp": mlp, "cnn": cnn, "gpt": gpt}


def serve(framework: str, names: list[str], steps: int) -> None:
    """Waits for words on standard input; each has one round run, whose time rank 0 tells."""
    T = importlib.import_module(framework)
    dist = importlib.import_module(framework + ".distributed")
    parallel = importlib.import_module(framework + ".nn.parallel")
    T.set_num_threads(1)
    dist.init_process_group("gloo")
    ready = {}
    for name in names:
        T.manual_seed(0)
        model, loss = CASES[name](T)
        model = parallel.DistributedDataParallel(model)
        ready[name] = model, loss, T.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for line in sys.stdin:
        model, loss, optimizer = ready[line.strip()]
        dist.barrier()
        start = time.perf_counter()
        for _ in range(steps):
            optimizer.zero_grad()
            loss(model).backward()
            optimizer.step()
        dist.barrier()
        if dist.get_rank() == 0:
            print((time.perf_counter() - start) / steps, flush=True)
    dist.destroy_process_group()


def memory(framework: str, layers: int = 24, width: int = 2048) -> None:
    """One step of a deep model whose layers are divided; bytes at rest and at the peak."""
    T = importlib.import_module(framework)
    dist = importlib.import_module(framework + ".distributed")
    fsdp = importlib.import_module(framework + ".distributed.fsdp")
    T.set_num_threads(1)
    dist.init_process_group("gloo")
    model = T.nn.Sequential()
    for i in range(layers):  # one by one, so that nobody ever holds the whole model
        T.manual_seed(i)
        model.append(fsdp.fully_shard(T.nn.Linear(width, width, bias=False)))
    fsdp.fully_shard(model)
    optimizer = T.optim.Adam(model.parameters(), lr=1e-4)
    for _ in range(2):
        optimizer.zero_grad()
        model(T.randn(4, width)).square().mean().backward()
        optimizer.step()
    nbytes = lambda tensors: sum(t.to_local().numel() * t.element_size() for t in tensors)
    parameters = list(model.parameters())
    states = [v for p in parameters for v in optimizer.state[p].values() if v.dim()]
    found = {
        "parameters": nbytes(parameters), "gradients": nbytes([p.grad for p in parameters]), "states": nbytes(states),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "whole": layers * width * width * 4,
    }  # fmt: skip
    if dist.get_rank() == 0:
        print(json.dumps(found), flush=True)
    dist.destroy_process_group()


def world(framework: str, size: int, arguments: list[str]) -> list[subprocess.Popen[str]]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size), "OMP_NUM_THREADS": "1"}
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, os.path.abspath(__file__), "--as", framework, *arguments]
    return [
        subprocess.Popen(
            command,
            env={**os.environ, **shared, "PYTHONPATH": path, "RANK": str(rank)},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
        )
        for rank in range(size)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="mlp,cnn,gpt")
    parser.add_argument("--size", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--as", dest="framework")
    options = parser.parse_args()
    names = options.only.split(",")
    if options.framework:
        if options.memory:
            memory(options.framework)
        else:
            serve(options.framework, names, options.steps)
        return
    if options.memory:
        for framework in ("flambeau", "torch"):
            processes = world(framework, 4, ["--memory"])
            found = json.loads(processes[0].communicate()[0])
            print(framework, {key: f"{value / 1e6:.0f} MB" for key, value in found.items()})
        return
    arguments = ["--only", options.only, "--steps", str(options.steps)]
    worlds = {framework: world(framework, options.size, arguments) for framework in ("flambeau", "torch")}
    print(
        f"{options.size} processes, milliseconds a step\n\n| model | flambeau | torch (gloo) | ratio |\n| --- | --- | --- | --- |"
    )
    for name in names:
        best = dict.fromkeys(worlds, float("inf"))
        for number in range(options.rounds + 1):
            for framework, processes in worlds.items():
                for process in processes:
                    process.stdin.write(name + "\n")  # type: ignore[union-attr]
                    process.stdin.flush()  # type: ignore[union-attr]
                seconds = float(processes[0].stdout.readline())  # type: ignore[union-attr]
                if number:  # the first round only warms up
                    best[framework] = min(best[framework], seconds)
        ours, theirs = best["flambeau"] * 1e3, best["torch"] * 1e3
        print(f"| {name} | {ours:.2f} | {theirs:.2f} | {theirs / ours:.2f} |", flush=True)
    for processes in worlds.values():
        for process in processes:
            process.stdin.close()  # type: ignore[union-attr]
        for process in processes:
            process.wait(60)


if __name__ == "__main__":
    main()
