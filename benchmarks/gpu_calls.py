"""Everyday calls on a GPU beside PyTorch's: what a call costs the host and the device together.

    python benchmarks/gpu_calls.py                    # both, each in a process of its own, then the ratios (above 1: flambeau is faster)
    python benchmarks/gpu_calls.py --side flambeau --json out.json
    python benchmarks/gpu_calls.py --only pool,sort

Sizes are small, so that what shows is whether a call has a plan and how many kernels it launches. Microseconds, best of three rounds of
20 calls with one synchronisation at their end.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


def calls(T: Any) -> dict[str, Callable[[], Any]]:
    """The calls by name."""
    nn, F = T.nn, T.nn.functional
    there: dict[str, Any] = {"device": "cuda"}
    short = {**there, "dtype": T.bfloat16}
    T.manual_seed(0)
    x, wide = T.randn(1, 1, 1024, **short), T.randn(1, 1, 4096, **short)
    norm, project = nn.LayerNorm(1024).to("cuda", T.bfloat16), nn.Linear(1024, 3072).to("cuda", T.bfloat16)
    cache, key, place = T.randn(1, 16, 512, 64, **short), T.randn(1, 16, 1, 64, **short), T.tensor([7], **there)
    q = T.randn(8, 8, 128, 64, **short)
    a, hidden, pictures = T.randn(64, 256, **there), T.randn(8, 128, 256, **there), T.randn(8, 64, 56, 56, **there)
    ids, mask = T.randint(0, 128, (8, 128), **there), T.randn(8, 128, **there) > 0
    logits, labels = T.randn(1024, 5000, **there), T.randint(0, 1000, (1024,), **there)
    big, places = T.randn(1 << 22, **there), T.randint(0, 1 << 22, (1 << 20,), **there)
    conv, batch_norm = nn.Conv2d(64, 64, 3, padding=1).to("cuda"), nn.BatchNorm2d(64).to("cuda")
    embedding, linear = nn.Embedding(1000, 256).to("cuda"), nn.Linear(256, 256).to("cuda")
    heads = nn.MultiheadAttention(256, 8, batch_first=True).to("cuda").eval()
    lstm, gru = (kind(256, 256, batch_first=True).to("cuda") for kind in (nn.LSTM, nn.GRU))
    grid = T.zeros(8, 8, 8, 2, **there)
    rows, images, steps = a.clone().requires_grad_(), pictures.clone().requires_grad_(), hidden.clone().requires_grad_()

    def back(make: Callable[[], Any], *leaves: Any) -> Callable[[], None]:
        def run() -> None:
            with T.enable_grad():
                make().sum().backward()
            for leaf in leaves:
                leaf.grad = None

        return run

    return {
        # decoding
        "layer_norm bf16": lambda: norm(x), "linear row bf16": lambda: project(x), "gelu bf16": lambda: F.gelu(wide),
        "index_copy_": lambda: cache.index_copy_(2, place, key), "attention of one": lambda: F.scaled_dot_product_attention(key, cache, cache),
        "int index": lambda: cache[0], "transpose reshape": lambda: key.transpose(1, 2).reshape(1, 1, 1024), "topk": lambda: logits.topk(10),
        "multinomial": lambda: T.multinomial(logits.softmax(-1), 1), "arange": lambda: T.arange(128, **there),
        # pointwise, folds
        "add": lambda: a + a, "mul number": lambda: a * 2.0, "where": lambda: T.where(mask, 1.0, 0.0), "cast": lambda: hidden.to(T.bfloat16),
        "sum": lambda: a.sum(), "mean rows": lambda: a.mean(-1), "max rows": lambda: a.max(-1), "argmax": lambda: a.argmax(-1),
        "softmax": lambda: a.softmax(-1), "std": lambda: a.std(-1), "norm": lambda: a.norm(), "cumsum": lambda: a.cumsum(-1),
        "cumsum 4M": lambda: big.cumsum(0), "sort": lambda: a.sort(-1), "sort 1M": lambda: places.sort(), "median": lambda: a.median(-1),
        "kthvalue": lambda: a.kthvalue(3), "unique": lambda: T.unique(ids), "bincount": lambda: T.bincount(ids.view(-1)),
        "histc": lambda: T.histc(a, 10), "searchsorted": lambda: T.searchsorted(a[0], a[1]),
        # places
        "gather": lambda: logits.gather(1, labels[:, None]), "take": lambda: hidden[:, ids[0]], "gather 1M": lambda: big[places],
        "scatter": lambda: T.zeros(8, 1000, **there).scatter_(1, ids, 1.0), "one_hot": lambda: F.one_hot(ids, 1000),
        "scatter_add": lambda: T.zeros(1000, **there).scatter_add_(0, ids.view(-1), T.ones(1024, **there)),
        "index_add": lambda: T.zeros(128, 256, **there).index_add_(0, ids[0], hidden[0]), "masked": lambda: hidden[mask],
        "nonzero": lambda: mask.nonzero(), "set number": lambda: a.__setitem__(0, 1.0), "set masked": lambda: hidden.__setitem__(mask, 0.5),
        "set tensor": lambda: hidden.__setitem__((slice(None), 3), hidden[:, 4]), "embedding": lambda: embedding(ids),
        "tril": lambda: T.tril(a), "roll": lambda: T.roll(a, 1, 1), "pad": lambda: F.pad(a, (1, 1)), "cat": lambda: T.cat([a, a], 1),
        "repeat": lambda: a.repeat(2, 2), "flip": lambda: a.flip(0),
        # random
        "rand": lambda: T.rand(8, 128, **there), "randint": lambda: T.randint(0, 9, (128,), **there), "dropout": lambda: F.dropout(hidden, 0.1),
        "bernoulli": lambda: T.bernoulli(a.sigmoid()),
        # layers, products
        "conv": lambda: conv(pictures), "batch_norm": lambda: batch_norm(pictures), "max_pool": lambda: F.max_pool2d(pictures, 2),
        "avg_pool": lambda: F.avg_pool2d(pictures, 2), "nearest": lambda: F.interpolate(pictures, scale_factor=2),
        "bilinear": lambda: F.interpolate(pictures, scale_factor=2, mode="bilinear"), "group_norm": lambda: F.group_norm(pictures, 8),
        "grid_sample": lambda: F.grid_sample(pictures, grid, align_corners=False), "linear": lambda: linear(hidden), "bmm": lambda: hidden @ hidden.mT,
        "addmm": lambda: T.addmm(a[:, :64], a, a.T), "cdist": lambda: T.cdist(a, a), "attention": lambda: F.scaled_dot_product_attention(q, q, q),
        "attention masked": lambda: F.scaled_dot_product_attention(q, q, q, attn_mask=mask[:, None, None, :]),
        "heads": lambda: heads(hidden, hidden, hidden, need_weights=False), "lstm": lambda: lstm(hidden), "gru": lambda: gru(hidden),
        "cross_entropy": lambda: F.cross_entropy(logits, labels),
        # forward and backward
        "max_pool back": back(lambda: F.max_pool2d(images, 2), images), "avg_pool back": back(lambda: F.avg_pool2d(images, 2), images),
        "bilinear back": back(lambda: F.interpolate(images, scale_factor=2, mode="bilinear"), images),
        "conv back": back(lambda: conv(images), images, conv.weight, conv.bias), "gather back": back(lambda: rows.gather(1, ids[:8, :8]), rows),
        "take back": back(lambda: steps[:, ids[0]], steps), "embedding back": back(lambda: embedding(ids), embedding.weight),
        "topk back": back(lambda: rows.topk(3)[0], rows), "cumsum back": back(lambda: rows.cumsum(-1), rows), "gelu back": back(lambda: F.gelu(rows), rows),
        "lstm back": back(lambda: lstm(steps)[0], steps, *lstm.parameters()), "cat back": back(lambda: T.cat([rows, rows]), rows),
    }  # fmt: skip


def timed(T: Any, call: Callable[[], Any]) -> float:
    for _ in range(8):
        call()
    T.cuda.synchronize()
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(20):
            call()
        T.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / 20)
    return best * 1e6


def measured(side: str, only: list[str]) -> dict[str, float]:
    T = importlib.import_module(side)
    found = {}
    with T.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, call in calls(T).items():
            if not only or any(word in name for word in only):
                found[name] = timed(T, call)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", choices=("torch", "flambeau"), help="one of them alone, in this process")
    parser.add_argument(
        "--only", default="", help="calls whose names contain one of these words, with commas between them"
    )
    parser.add_argument("--json", help="where the times are written")
    chosen = parser.parse_args()
    only = [word for word in chosen.only.split(",") if word]
    if chosen.side:
        found = measured(chosen.side, only)
        for name, time_ in found.items():
            print(f"{name:18} {time_:10.1f} us")
        if chosen.json:
            Path(chosen.json).write_text(json.dumps(found))
        return
    sides = {}
    with tempfile.TemporaryDirectory() as folder:
        for side in ("torch", "flambeau"):
            file = Path(folder) / side
            command = [sys.executable, __file__, "--side", side, "--only", chosen.only, "--json", str(file)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            sides[side] = json.loads(file.read_text())
    ratios = {name: sides["torch"][name] / time_ for name, time_ in sides["flambeau"].items()}
    for name in sorted(ratios, key=ratios.__getitem__):
        print(f"{name:18} {sides['torch'][name]:10.1f} {sides['flambeau'][name]:10.1f} us   x {ratios[name]:6.2f}")
    print(f"{sum(r >= 1 for r in ratios.values())} of {len(ratios)} calls ahead")
    if chosen.json:
        Path(chosen.json).write_text(json.dumps(sides))


if __name__ == "__main__":
    main()
