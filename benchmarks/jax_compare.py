"""Times compiled steps of flambeau beside `jax.jit` on the CPU: the first call, with nothing compiled before, and the steady state.

    pip install jax && python benchmarks/jax_compare.py [-k NAME] [--rounds 5] [--threads N]

Both compute the same networks with the same sizes in single precision. Each framework has a process of its own for each workload; the rounds
alternate, so that noise on a shared machine hits both. With `--threads 1` both keep to one core and processor time is measured, which does
not depend on what else the machine does. flambeau's first calls are shown with an empty cache of kernels, and in a second process (JAX keeps
nothing on disk unless it is told to). A ratio above 1 means that flambeau is faster.
"""

from __future__ import annotations

import argparse
import itertools
import math
import multiprocessing as mp
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

WORKLOADS = ("mlp_tiny_step", "mlp_step", "cnn_step", "gpt_step", "lstm_step", "pointwise_chain", "adamw_10M")
MLPS = {"mlp_tiny_step": (32, (64, 128, 128, 10)), "mlp_step": (64, (784, 512, 512, 10))}
WIDTH, HEADS, LAYERS, VOCABULARY, CONTEXT = 128, 4, 2, 512, 64


# -- flambeau ------------------------------------------------------------------------------------------------------------------


def flambeau_workload(name: str) -> Callable[[], Any]:
    import flambeau as torch

    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            b, t, c = x.shape
            q, k, v = (z.view(b, t, HEADS, c // HEADS).transpose(1, 2) for z in self.qkv(self.ln1(x)).split(c, 2))
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(a.transpose(1, 2).reshape(b, t, c))
            return x + self.down(F.gelu(self.up(self.ln2(x))))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tok, self.pos = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
            self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
            self.ln, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

        def forward(self, idx: Any) -> Any:
            x = self.tok(idx) + self.pos(torch.arange(idx.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.ln(x)).reshape(-1, VOCABULARY)

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.emb, self.lstm = nn.Embedding(1000, 64), nn.LSTM(64, 128, batch_first=True)
            self.head = nn.Linear(128, 5)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(self.emb(x))[0][:, -1])

    if name == "pointwise_chain":
        x, y = torch.randn(2000, 1000), torch.randn(2000, 1000)
        chain = torch.compile(
            lambda x, y: (torch.tanh(x * y) + torch.sigmoid(x - y) * 2).exp().mul(0.5).clamp(-1, 1).sum(1)
        )
        return lambda: chain(x, y)
    if name == "adamw_10M":
        params = [nn.Parameter(torch.randn(1000, 1000)) for _ in range(10)]
        for p in params:
            p.grad = torch.randn(1000, 1000)
        optimizer = torch.optim.AdamW(params, lr=1e-3)
        return torch.compile(lambda: optimizer.step())  # type: ignore[no-any-return]
    if name in MLPS:
        batch, widths = MLPS[name]
        layers = [m for a, b in itertools.pairwise(widths) for m in (nn.Linear(a, b), nn.ReLU())][:-1]
        model, x, y = nn.Sequential(*layers), torch.randn(batch, widths[0]), torch.randint(0, 10, (batch,))
    elif name == "cnn_step":
        model = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
            nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 64, 10),
        )  # fmt: skip
        x, y = torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))
    elif name == "gpt_step":
        model, x = GPT(), torch.randint(0, VOCABULARY, (8, CONTEXT))
        y = torch.randint(0, VOCABULARY, (8 * CONTEXT,))
    else:
        model, x, y = Tagger(), torch.randint(0, 1000, (32, 40)), torch.randint(0, 5, (32,))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return torch.compile(step)  # type: ignore[no-any-return]


# -- JAX -----------------------------------------------------------------------------------------------------------------------


def jax_workload(name: str) -> Callable[[], Any]:
    import jax
    import jax.numpy as jnp

    draw = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return jnp.asarray(draw.standard_normal(shape, np.float32) * 0.05)

    def integers(high: int, *shape: int) -> Any:
        return jnp.asarray(draw.integers(0, high, shape))

    def linear(a: int, b: int) -> Any:
        return {"w": normal(a, b), "b": jnp.zeros(b)}

    def apply(p: Any, x: Any) -> Any:
        return x @ p["w"] + p["b"]

    def norm(p: Any, x: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(jnp.square(x - mean).mean(-1, keepdims=True) + 1e-5) * p["w"] + p["b"]

    def affine() -> Any:
        return {"w": jnp.ones(WIDTH), "b": jnp.zeros(WIDTH)}

    def adamw(params: Any, grads: Any, state: Any, lr: float = 1e-3, decay: float = 1e-2) -> Any:
        count, m, v = state
        count = count + 1
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, grads)
        first, second = 1 - 0.9**count, 1 - 0.999**count

        def update(p: Any, m: Any, v: Any) -> Any:
            return p * (1 - lr * decay) - lr / first * m / (jnp.sqrt(v / second) + 1e-8)

        return jax.tree.map(update, params, m, v), (count, m, v)

    def start(params: Any) -> Any:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return jnp.zeros(()), zeros, jax.tree.map(jnp.zeros_like, params)

    def mlp(params: Any, x: Any) -> Any:
        for p in params[:-1]:
            x = jax.nn.relu(apply(p, x))
        return apply(params[-1], x)

    def pool(x: Any) -> Any:
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def cnn(params: Any, x: Any) -> Any:
        for p in params[:-1]:
            x = jax.lax.conv_general_dilated(x, p["w"], (1, 1), "SAME") + p["b"][:, None, None]
            x = pool(jax.nn.relu(x))
        return apply(params[-1], x.reshape(len(x), -1))

    def gpt(params: Any, idx: Any) -> Any:
        x = params["tok"][idx] + params["pos"]
        b, t, c = x.shape
        mask = jnp.tril(jnp.ones((t, t), bool))
        for p in params["blocks"]:
            q, k, v = (
                z.reshape(b, t, HEADS, c // HEADS).swapaxes(1, 2)
                for z in jnp.split(apply(p["qkv"], norm(p["ln1"], x)), 3, -1)
            )
            scores = jnp.where(mask, q @ k.swapaxes(-1, -2) / math.sqrt(c // HEADS), -jnp.inf)
            x = x + apply(p["proj"], (jax.nn.softmax(scores) @ v).swapaxes(1, 2).reshape(b, t, c))
            x = x + apply(p["down"], jax.nn.gelu(apply(p["up"], norm(p["ln2"], x)), approximate=False))
        return (norm(params["ln"], x) @ params["head"]).reshape(-1, VOCABULARY)

    def tagger(params: Any, idx: Any) -> Any:
        given = (params["emb"][idx] @ params["x"] + params["b"]).swapaxes(0, 1)

        def cell(state: Any, g: Any) -> Any:
            h, c = state
            i, f, a, o = jnp.split(g + h @ params["h"], 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(a)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        zeros = jnp.zeros((len(idx), 128))
        (h, _), _ = jax.lax.scan(cell, (zeros, zeros), given)
        return apply(params["head"], h)

    if name == "pointwise_chain":
        x, y = normal(2000, 1000), normal(2000, 1000)
        chain = jax.jit(lambda x, y: jnp.clip(jnp.exp(jnp.tanh(x * y) + jax.nn.sigmoid(x - y) * 2) * 0.5, -1, 1).sum(1))
        return lambda: chain(x, y).block_until_ready()
    if name == "adamw_10M":
        params = [normal(1000, 1000) for _ in range(10)]
        grads, held = [normal(1000, 1000) for _ in range(10)], [(params, start(params))]
        change = jax.jit(lambda params, state, grads: adamw(params, grads, state), donate_argnums=(0, 1))

        def run() -> None:
            held[0] = jax.block_until_ready(change(*held[0], grads))

        return run
    if name in MLPS:
        batch, widths = MLPS[name]
        forward, params = mlp, [linear(a, b) for a, b in itertools.pairwise(widths)]
        x, y = normal(batch, widths[0]), integers(10, batch)
    elif name == "cnn_step":
        forward, x, y = cnn, normal(32, 3, 32, 32), integers(10, 32)
        params = [{"w": normal(b, a, 3, 3), "b": jnp.zeros(b)} for a, b in ((3, 32), (32, 64))]
        params.append(linear(64 * 64, 10))
    elif name == "gpt_step":
        forward, x, y = gpt, integers(VOCABULARY, 8, CONTEXT), integers(VOCABULARY, 8 * CONTEXT)
        block = lambda: {
            "ln1": affine(), "ln2": affine(), "qkv": linear(WIDTH, 3 * WIDTH), "proj": linear(WIDTH, WIDTH),
            "up": linear(WIDTH, 4 * WIDTH), "down": linear(4 * WIDTH, WIDTH),
        }  # fmt: skip
        params = {
            "tok": normal(VOCABULARY, WIDTH), "pos": normal(CONTEXT, WIDTH), "blocks": [block() for _ in range(LAYERS)],
            "ln": affine(), "head": normal(WIDTH, VOCABULARY),
        }  # type: ignore[assignment]  # fmt: skip
    else:
        forward, x, y = tagger, integers(1000, 32, 40), integers(5, 32)
        params = {
            "emb": normal(1000, 64), "x": normal(64, 512), "h": normal(128, 512), "b": jnp.zeros(512),
            "head": linear(128, 5),
        }  # type: ignore[assignment]  # fmt: skip

    def loss(params: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(forward(params, x)), y[:, None], 1).mean()

    def step(params: Any, state: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params)
        return value, *adamw(params, grads, state)

    compiled, held = jax.jit(step, donate_argnums=(0, 1)), [(params, start(params))]

    def train() -> None:
        _, params, state = jax.block_until_ready(compiled(*held[0]))
        held[0] = params, state

    return train


# -- timing --------------------------------------------------------------------------------------------------------------------


def serve(framework: str, name: str, threads: int, pipe: Any) -> None:
    """A process: the first calls, then rounds on request."""
    clock = time.process_time if threads == 1 else time.perf_counter
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    if framework == "flambeau":
        sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
        import flambeau

        flambeau.set_num_threads(threads)
        work, calls = flambeau_workload(name), 2  # the first call records, the second one makes the program
    else:
        import jax  # noqa: F401

        work, calls = jax_workload(name), 1
    began = clock()
    for _ in range(calls):
        work()
    pipe.send(clock() - began)
    for _ in range(3):
        work()
    began = clock()
    work()
    count = max(1, int(0.2 / max(clock() - began, 1e-5)))
    while pipe.recv():
        began = clock()
        for _ in range(count):
            work()
        pipe.send((clock() - began) / count)


class Worker:
    """A process with one framework and one workload; `first` is what its first calls took."""

    def __init__(self, framework: str, name: str, threads: int):
        context = mp.get_context("spawn")
        self.pipe, far = context.Pipe()
        self.process = context.Process(target=serve, args=(framework, name, threads, far))
        self.process.start()
        self.first: float = self.pipe.recv()

    def round(self) -> float:
        self.pipe.send(True)
        return self.pipe.recv()  # type: ignore[no-any-return]

    def close(self) -> None:
        self.pipe.send(False)
        self.process.join(10)


def compare(name: str, rounds: int, threads: int) -> tuple[list[float], list[float]]:
    """(first calls of flambeau with an empty cache, in a second process, of JAX; steady states of flambeau and JAX)."""
    with tempfile.TemporaryDirectory() as empty:
        os.environ["FLAMBEAU_CACHE_DIR"] = empty
        cold = Worker("flambeau", name, threads)
        cold.close()
        workers = Worker("flambeau", name, threads), Worker("jax", name, threads)
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(rounds):
            for series, worker in zip(times, workers):
                series.append(worker.round())
        for worker in workers:
            worker.close()
    return [cold.first, *[worker.first for worker in workers]], [min(series) for series in times]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", default="", help="only names that contain this")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    chosen = parser.parse_args()
    print("| workload | flambeau | jax.jit | ratio | first calls: flambeau | second process | jax.jit | ratios |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    ratios = []
    for name in [w for w in WORKLOADS if chosen.k in w]:
        (cold, warm, first), (mine, other) = compare(name, chosen.rounds, chosen.threads)
        ratios.append((other / mine, first / cold, first / warm))
        print(
            f"| {name} | {mine * 1e3:.3f} ms | {other * 1e3:.3f} ms | {other / mine:.2f} | {cold:.2f} s | {warm:.2f} s | {first:.2f} s | "
            f"{first / cold:.1f}, {first / warm:.1f} |",
            flush=True,
        )
    if ratios:
        means = [math.exp(sum(map(math.log, column)) / len(column)) for column in zip(*ratios)]
        print(f"| geometric mean | | | {means[0]:.2f} | | | | {means[1]:.1f}, {means[2]:.1f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
