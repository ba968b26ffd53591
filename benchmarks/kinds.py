"""Kinds of work that no other program here measures, on flambeau and on PyTorch.

    python benchmarks/kinds.py [--only PATTERN,PATTERN] [--rounds 8] [--threads N] [--memory]

Each framework runs in a process of its own; they take turns, a short run each, so that both meet the same moments of a
busy machine, and of all runs the shortest counts. With `--threads 1` the time of the processor is taken rather than that
of the clock. With `--memory` each kind is run once more in fresh processes and the table shows how far it raised their
peak. Needs PyTorch beside flambeau.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import json
import math
import os
import platform
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

Make = Callable[[Any], Callable[[], Any]]
KINDS: dict[str, Make] = {}


def kind(name: str) -> Callable[[Make], Make]:
    def keep(make: Make) -> Make:
        KINDS[name] = make
        return make

    return keep


def training(T: Any, loss: Callable[[], Any], parameters: list[Any]) -> Callable[[], Any]:
    """A loss and the gradients of parameters."""

    def step() -> None:
        for p in parameters:
            p.grad = None
        loss().backward()

    return step


def without_gradients(T: Any, call: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> Any:
        with T.no_grad():
            return call()

    return run


# -- products of few rows --------------------------------------------------------------------------------------------


def products() -> None:
    for rows in (1, 2, 4, 8, 16):
        for inner, outer in ((384, 1536), (1536, 384), (256, 256)):
            text = f"{rows}x{inner}x{outer}"

            def linear(T: Any, m: int = rows, k: int = inner, n: int = outer) -> Callable[[], Any]:
                x, w, b = T.randn(m, k), T.randn(n, k), T.randn(n)
                return lambda: T.nn.functional.linear(x, w, b)

            def addmm(T: Any, m: int = rows, k: int = inner, n: int = outer) -> Callable[[], Any]:
                x, w, b = T.randn(m, k), T.randn(k, n), T.randn(n)
                return lambda: T.addmm(b, x, w)

            def by_columns(T: Any, m: int = rows, k: int = inner, n: int = outer) -> Callable[[], Any]:
                x, w = T.randn(m, k), T.randn(n, k)
                return lambda: x @ w.t()

            def by_rows(T: Any, m: int = rows, k: int = inner, n: int = outer) -> Callable[[], Any]:
                x, w = T.randn(m, k), T.randn(k, n)
                return lambda: x @ w

            KINDS.update({f"linear {text}": linear, f"addmm {text}": addmm})
            if (inner, outer) == (384, 1536):
                KINDS.update({f"mm turned {text}": by_columns, f"mm {text}": by_rows})

        def batched(T: Any, m: int = rows) -> Callable[[], Any]:
            x, y = T.randn(12, m, 64), T.randn(12, 64, 128)
            return lambda: T.bmm(x, y)

        def batched_turned(T: Any, m: int = rows) -> Callable[[], Any]:
            x, y = T.randn(12, m, 64), T.randn(12, 128, 64)
            return lambda: T.bmm(x, y.transpose(1, 2))

        def batched_sum(T: Any, m: int = rows) -> Callable[[], Any]:
            x, y, c = T.randn(12, m, 64), T.randn(12, 64, 128), T.randn(12, m, 128)
            return lambda: T.baddbmm(c, x, y)

        KINDS.update({f"bmm 12x{rows}x64x128": batched, f"bmm turned 12x{rows}x64x128": batched_turned})
        KINDS[f"baddbmm 12x{rows}x64x128"] = batched_sum


products()


# -- integers --------------------------------------------------------------------------------------------------------


def int8_linear(rows: int, inner: int, outer: int) -> Make:
    def make(T: Any) -> Callable[[], Any]:
        layer = T.nn.Sequential(T.nn.Linear(inner, outer)).eval()
        if platform.machine() in ("aarch64", "arm64"):
            T.backends.quantized.engine = "qnnpack"
        made = T.ao.quantization.quantize_dynamic(layer, {T.nn.Linear}, dtype=T.qint8)
        x = T.randn(rows, inner)
        return without_gradients(T, lambda: made(x))

    return make


def float_linear(rows: int, inner: int, outer: int) -> Make:
    def make(T: Any) -> Callable[[], Any]:
        layer, x = T.nn.Linear(inner, outer).eval(), T.randn(rows, inner)
        return without_gradients(T, lambda: layer(x))

    return make


for _rows, _inner, _outer in ((1, 768, 3072), (16, 768, 768), (128, 768, 768), (128, 768, 3072), (512, 1024, 1024)):
    KINDS[f"int8 linear {_rows}x{_inner}x{_outer}"] = int8_linear(_rows, _inner, _outer)
    KINDS[f"float linear {_rows}x{_inner}x{_outer}"] = float_linear(_rows, _inner, _outer)


@kind("quantize_per_tensor 1M")
def _(T: Any) -> Callable[[], Any]:
    x = T.randn(1024, 1024)
    return lambda: T.quantize_per_tensor(x, 0.05, 10, T.quint8)


@kind("quantize_per_channel 1M")
def _(T: Any) -> Callable[[], Any]:
    x, scales, zeros = T.randn(1024, 1024), T.rand(1024) + 0.1, T.zeros(1024, dtype=T.int64)
    return lambda: T.quantize_per_channel(x, scales, zeros, 0, T.qint8)


@kind("dequantize 1M")
def _(T: Any) -> Callable[[], Any]:
    q = T.quantize_per_tensor(T.randn(1024, 1024), 0.05, 10, T.quint8)
    return lambda: q.dequantize()


@kind("quantize_per_tensor 1k")
def _(T: Any) -> Callable[[], Any]:
    x = T.randn(1000)
    return lambda: T.quantize_per_tensor(x, 0.05, 10, T.quint8)


# -- a network like ConvNeXt -----------------------------------------------------------------------------------------


def convnext(T: Any, channels: int = 64, blocks: int = 2) -> Any:
    nn = T.nn

    class Norm(nn.Module):
        """Layer norm over the channels of (N, C, H, W)."""

        def __init__(self, channels: int):
            super().__init__()
            self.norm = nn.LayerNorm(channels, eps=1e-6)

        def forward(self, x: Any) -> Any:
            return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    class Block(nn.Module):
        def __init__(self, channels: int):
            super().__init__()
            self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
            self.norm = nn.LayerNorm(channels, eps=1e-6)
            self.wide, self.act, self.narrow = (
                nn.Linear(channels, 4 * channels),
                nn.GELU(),
                nn.Linear(4 * channels, channels),
            )
            self.gamma = nn.Parameter(1e-6 * T.ones(channels))

        def forward(self, x: Any) -> Any:
            y = self.depthwise(x).permute(0, 2, 3, 1)
            y = self.gamma * self.narrow(self.act(self.wide(self.norm(y))))
            return x + y.permute(0, 3, 1, 2)

    layers: list[Any] = [nn.Conv2d(3, channels, 4, stride=4), Norm(channels)]
    layers += [Block(channels) for _ in range(blocks)]
    layers += [Norm(channels), nn.Conv2d(channels, 2 * channels, 2, stride=2)]
    layers += [Block(2 * channels) for _ in range(blocks)]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(2 * channels), nn.Linear(2 * channels, 10)
    )


@kind("convnext inference")
def _(T: Any) -> Callable[[], Any]:
    net, x = convnext(T).eval(), T.randn(2, 3, 96, 96)
    return without_gradients(T, lambda: net(x))


@kind("convnext training")
def _(T: Any) -> Callable[[], Any]:
    net, x, y = convnext(T), T.randn(4, 3, 64, 64), T.randint(0, 10, (4,))
    return training(T, lambda: T.nn.functional.cross_entropy(net(x), y), list(net.parameters()))


@kind("depthwise 7x7")
def _(T: Any) -> Callable[[], Any]:
    x, w, b = T.randn(2, 96, 28, 28), T.randn(96, 1, 7, 7), T.randn(96)
    return lambda: T.nn.functional.conv2d(x, w, b, padding=3, groups=96)


@kind("depthwise 7x7 training")
def _(T: Any) -> Callable[[], Any]:
    x, w, b = (T.randn(*s, requires_grad=True) for s in ((2, 96, 28, 28), (96, 1, 7, 7), (96,)))
    g = T.randn(2, 96, 28, 28)
    return lambda: T.nn.functional.conv2d(x, w, b, padding=3, groups=96).backward(g)


@kind("depthwise 7x7 channels last")
def _(T: Any) -> Callable[[], Any]:
    x, w, b = T.randn(2, 28, 28, 96).permute(0, 3, 1, 2), T.randn(96, 1, 7, 7), T.randn(96)
    return lambda: T.nn.functional.conv2d(x, w, b, padding=3, groups=96)


@kind("norm over channels")
def _(T: Any) -> Callable[[], Any]:
    x, w, b = T.randn(4, 96, 28, 28), T.randn(96), T.randn(96)
    return lambda: T.nn.functional.layer_norm(x.permute(0, 2, 3, 1), (96,), w, b).permute(0, 3, 1, 2)


@kind("norm over channels training")
def _(T: Any) -> Callable[[], Any]:
    x, w, b = (T.randn(*s, requires_grad=True) for s in ((4, 96, 28, 28), (96,), (96,)))
    g = T.randn(4, 96, 28, 28)
    return lambda: T.nn.functional.layer_norm(x.permute(0, 2, 3, 1), (96,), w, b).permute(0, 3, 1, 2).backward(g)


# -- transformers ----------------------------------------------------------------------------------------------------


def gpt(T: Any, width: int = 128, heads: int = 4, layers: int = 3, words: int = 1000) -> Any:
    """A small GPT whose layers take and return keys and values, written as most programs write it."""
    nn, F = T.nn, T.nn.functional

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any, past: Any) -> Any:
            b, t, _ = x.shape
            q, k, v = self.qkv(self.first(x)).split(width, dim=2)
            q, k, v = (y.view(b, t, heads, width // heads).transpose(1, 2) for y in (q, k, v))
            if past is not None:
                k, v = T.cat([past[0], k], dim=2), T.cat([past[1], v], dim=2)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=past is None and t > 1)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, width))
            return x + self.narrow(F.gelu(self.wide(self.second(x)), approximate="tanh")), (k, v)

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(256, width)
            self.layers = nn.ModuleList([Layer() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

        def forward(self, tokens: Any, past: Any) -> Any:
            start = 0 if past is None else past[0][0].shape[2]
            x = self.words(tokens) + self.places(T.arange(start, start + tokens.shape[1]))
            kept = []
            for i, layer in enumerate(self.layers):
                x, pair = layer(x, None if past is None else past[i])
                kept.append(pair)
            return self.head(self.norm(x[:, -1])), kept

    return GPT().eval()


def decoding(batch: int, sampled: bool) -> Make:
    def make(T: Any) -> Callable[[], Any]:
        net, prompt = gpt(T), T.randint(0, 1000, (batch, 16))

        def generate() -> Any:
            tokens, past, step = prompt, None, prompt
            for _ in range(24):
                logits, past = net(step, past)
                if sampled:
                    logits = logits / 0.8
                    least = T.topk(logits, 50)[0][:, -1:]
                    logits = logits.masked_fill(logits < least, -float("inf"))
                    step = T.multinomial(T.softmax(logits, dim=-1), num_samples=1)
                else:
                    step = logits.argmax(dim=-1, keepdim=True)
                tokens = T.cat([tokens, step], dim=1)
            return tokens

        return without_gradients(T, generate)

    return make


KINDS |= {
    "decoding 1 greedy": decoding(1, False),
    "decoding 1 sampled": decoding(1, True),
    "decoding 4 sampled": decoding(4, True),
}


@kind("cat of a cache")
def _(T: Any) -> Callable[[], Any]:
    past, one = T.randn(1, 8, 200, 64), T.randn(1, 8, 1, 64)
    return lambda: T.cat([past, one], dim=2)


@kind("attention of one query")
def _(T: Any) -> Callable[[], Any]:
    q, k, v = T.randn(1, 8, 1, 64), T.randn(1, 8, 200, 64), T.randn(1, 8, 200, 64)
    return lambda: T.nn.functional.scaled_dot_product_attention(q, k, v)


@kind("attention of one query by hand")
def _(T: Any) -> Callable[[], Any]:
    q, k, v = T.randn(1, 8, 1, 64), T.randn(1, 8, 200, 64), T.randn(1, 8, 200, 64)
    return lambda: T.softmax(q @ k.transpose(-1, -2) / 8.0, dim=-1) @ v


@kind("multinomial 1 of 1000")
def _(T: Any) -> Callable[[], Any]:
    p = T.rand(1, 1000)
    return lambda: T.multinomial(p, 1)


@kind("multinomial 4 of 50257")
def _(T: Any) -> Callable[[], Any]:
    p = T.rand(4, 50257)
    return lambda: T.multinomial(p, 1)


@kind("sentence encoder")
def _(T: Any) -> Callable[[], Any]:
    nn, F, width, heads = T.nn, T.nn.functional, 384, 12

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.first, self.second = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)
            self.dropout = nn.Dropout(0.1)

        def forward(self, x: Any, mask: Any) -> Any:
            shape = (*x.shape[:-1], heads, width // heads)
            q, k, v = (f(x).view(shape).transpose(1, 2) for f in (self.query, self.key, self.value))
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            y = y.transpose(1, 2).reshape(x.shape)
            x = self.first(self.dropout(self.out(y)) + x)
            return self.second(self.dropout(self.narrow(F.gelu(self.wide(x)))) + x)

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places, self.kinds = (
                nn.Embedding(3000, width),
                nn.Embedding(64, width),
                nn.Embedding(2, width),
            )
            self.norm, self.layers = nn.LayerNorm(width, eps=1e-12), nn.ModuleList([Layer() for _ in range(6)])

        def forward(self, tokens: Any, mask: Any) -> Any:
            places = T.arange(tokens.shape[1]).unsqueeze(0)
            x = self.norm(self.words(tokens) + self.places(places) + self.kinds(T.zeros_like(tokens)))
            added = (1.0 - mask[:, None, None, :].to(x.dtype)) * T.finfo(x.dtype).min
            added = added.expand(-1, 1, tokens.shape[1], -1)
            for layer in self.layers:
                x = layer(x, added)
            wide = mask.unsqueeze(-1).expand(x.size()).float()
            return F.normalize((x * wide).sum(1) / wide.sum(1).clamp(min=1e-9), p=2, dim=1)

    net, tokens, mask = Encoder().eval(), T.randint(0, 3000, (1, 12)), T.ones(1, 12, dtype=T.int64)
    return without_gradients(T, lambda: net(tokens, mask))


# -- numerics --------------------------------------------------------------------------------------------------------


def gaussian_process(points: int, dtype: str) -> Make:
    def make(T: Any) -> Callable[[], Any]:
        d = getattr(T, dtype)
        x, y = T.linspace(0, 1, points, dtype=d).unsqueeze(1), T.randn(points, dtype=d)
        length, scale, noise = (T.zeros((), dtype=d, requires_grad=True) for _ in range(3))

        def loss() -> Any:
            distance = (x - x.T) ** 2
            k = scale.exp() * T.exp(-0.5 * distance / length.exp() ** 2) + (noise.exp() + 1e-3) * T.eye(points, dtype=d)
            low = T.linalg.cholesky(k)
            alpha = T.cholesky_solve(y.unsqueeze(1), low)
            solved = T.linalg.solve_triangular(low, y.unsqueeze(1), upper=False)
            fit = 0.5 * (y @ alpha.squeeze(1)) + 0.0 * (solved**2).sum()
            return fit + low.diagonal().log().sum() + 0.5 * points * math.log(2 * math.pi)

        return training(T, loss, [length, scale, noise])

    return make


for _points in (32, 100, 300):
    KINDS[f"gaussian process {_points}"] = gaussian_process(_points, "float32")
KINDS["gaussian process 200 double"] = gaussian_process(200, "float64")


@kind("cholesky 100 training")
def _(T: Any) -> Callable[[], Any]:
    a = T.randn(100, 100)
    a = (a @ a.T + 100 * T.eye(100)).requires_grad_()
    return training(T, lambda: T.linalg.cholesky(a).diagonal().log().sum(), [a])


@kind("solve_triangular 100 training")
def _(T: Any) -> Callable[[], Any]:
    a = (T.randn(100, 100).tril() + 20 * T.eye(100)).requires_grad_()
    b = T.randn(100, 8, requires_grad=True)
    return training(T, lambda: T.linalg.solve_triangular(a, b, upper=False).sum(), [a, b])


@kind("logdet 100 training")
def _(T: Any) -> Callable[[], Any]:
    a = T.randn(100, 100)
    a = (a @ a.T + 100 * T.eye(100)).requires_grad_()
    return training(T, lambda: T.logdet(a), [a])


@kind("multivariate normal training")
def _(T: Any) -> Callable[[], Any]:
    a = T.randn(16, 16)
    mean, cov = T.zeros(16, requires_grad=True), (a @ a.T + 16 * T.eye(16)).requires_grad_()
    x = T.randn(64, 16)
    normal = T.distributions.MultivariateNormal
    return training(T, lambda: -normal(mean, cov).log_prob(x).mean(), [mean, cov])


def fft_convolution(batch: int, channels: int, length: int) -> Make:
    def make(T: Any) -> Callable[[], Any]:
        x, k = T.randn(batch, channels, length, requires_grad=True), T.randn(channels, length, requires_grad=True)
        d = T.randn(channels, 1, requires_grad=True)

        def loss() -> Any:
            n = 2 * length
            made = T.fft.irfft(T.fft.rfft(x, n=n) * T.fft.rfft(k, n=n), n=n)[..., :length]
            return T.nn.functional.gelu(made + x * d).sum()

        return training(T, loss, [x, k, d])

    return make


KINDS["fft convolution 8x32x512"] = fft_convolution(8, 32, 512)
KINDS["fft convolution 2x8x4096"] = fft_convolution(2, 8, 4096)
KINDS["fft convolution 4x16x300"] = fft_convolution(4, 16, 300)


@kind("fourier layer 2d")
def _(T: Any) -> Callable[[], Any]:
    x = T.randn(4, 16, 32, 32, requires_grad=True)
    w = (T.randn(16, 16, 8, 8, 2) * 0.1).requires_grad_()

    def loss() -> Any:
        f = T.fft.rfft2(x)
        out = T.zeros(4, 16, 32, 17, dtype=T.complex64)
        out[:, :, :8, :8] = T.einsum("bixy,ioxy->boxy", f[:, :, :8, :8], T.view_as_complex(w))
        return (T.fft.irfft2(out, s=(32, 32)) ** 2).mean()

    return training(T, loss, [x, w])


def lbfgs(search: str | None, size: int) -> Make:
    def make(T: Any) -> Callable[[], Any]:
        x = T.randn(64, 8)
        y = T.sin(x.sum(1, keepdim=True))

        def run() -> Any:
            T.manual_seed(0)
            net = T.nn.Sequential(T.nn.Linear(8, size), T.nn.Tanh(), T.nn.Linear(size, 1))
            optimizer = T.optim.LBFGS(net.parameters(), max_iter=10, line_search_fn=search)

            def closure() -> Any:
                optimizer.zero_grad()
                loss = ((net(x) - y) ** 2).mean()
                loss.backward()
                return loss

            for _ in range(2):
                optimizer.step(closure)

        return run

    return make


KINDS |= {
    "lbfgs": lbfgs(None, 16),
    "lbfgs strong_wolfe": lbfgs("strong_wolfe", 16),
    "lbfgs wide": lbfgs("strong_wolfe", 256),
}


@kind("lbfgs rosenbrock")
def _(T: Any) -> Callable[[], Any]:
    def run() -> Any:
        p = T.tensor([-1.5, 2.0], requires_grad=True)
        optimizer = T.optim.LBFGS([p], max_iter=20, line_search_fn="strong_wolfe")

        def closure() -> Any:
            optimizer.zero_grad()
            loss = (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2
            loss.backward()
            return loss

        optimizer.step(closure)

    return run


# -- images ----------------------------------------------------------------------------------------------------------


def sampled(training_too: bool, mode: str = "bilinear", padding: str = "zeros") -> Make:
    def make(T: Any) -> Callable[[], Any]:
        x = T.randn(4, 8, 64, 64, requires_grad=training_too)
        theta = T.tensor([[0.9, 0.1, 0.05], [-0.1, 0.8, 0.0]]).repeat(4, 1, 1).requires_grad_(training_too)

        def call() -> Any:
            grid = T.nn.functional.affine_grid(theta, (4, 8, 64, 64), align_corners=False)
            return T.nn.functional.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=False)

        return training(T, lambda: call().sum(), [x, theta]) if training_too else call

    return make


KINDS |= {
    "grid_sample": sampled(False),
    "grid_sample border": sampled(False, "bilinear", "border"),
    "grid_sample bicubic": sampled(False, "bicubic"),
    "grid_sample nearest": sampled(False, "nearest"),
    "grid_sample training": sampled(True),
    "grid_sample bicubic training": sampled(True, "bicubic"),
}


def resized(mode: str, size: int, training_too: bool, dtype: str = "float32") -> Make:
    def make(T: Any) -> Callable[[], Any]:
        if dtype == "uint8":
            x = T.randint(0, 256, (4, 3, 128, 128), dtype=T.uint8)
        else:
            x = T.randn(4, 3, 128, 128, requires_grad=training_too)

        def call() -> Any:
            return T.nn.functional.interpolate(x, size=(size, size), mode=mode, antialias=True, align_corners=False)

        return training(T, lambda: call().sum(), [x]) if training_too else call

    return make


KINDS |= {
    "antialias bilinear down": resized("bilinear", 56, False),
    "antialias bilinear up": resized("bilinear", 224, False),
    "antialias bicubic down": resized("bicubic", 56, False),
    "antialias bilinear training": resized("bilinear", 56, True),
    "antialias bilinear uint8": resized("bilinear", 56, False, "uint8"),
}


# -- numbers ---------------------------------------------------------------------------------------------------------


@kind("chain of 0-d")
def _(T: Any) -> Callable[[], Any]:
    x = T.tensor(0.7)

    def run() -> Any:
        y = x
        for _ in range(30):
            y = (y * 1.01 + 0.1).sin() - y / 3
        return y

    return run


@kind("chain of 0-d training")
def _(T: Any) -> Callable[[], Any]:
    x = T.tensor(0.7, requires_grad=True)

    def loss() -> Any:
        y = x
        for _ in range(30):
            y = (y * 1.01 + 0.1).sin() - y / 3
        return y

    return training(T, loss, [x])


@kind("newton on 0-d")
def _(T: Any) -> Callable[[], Any]:
    def run() -> Any:
        x = T.tensor(2.0)
        for _ in range(20):
            x = x - (x**2 - 3) / (2 * x)
            if abs(x * x - 3).item() < 0:
                break
        return x

    return run


def single(text: str, setup: str, training_too: bool = False) -> Make:
    """One call, written as text over names that `setup` binds."""

    def make(T: Any) -> Callable[[], Any]:
        scope: dict[str, Any] = {"T": T, "F": T.nn.functional}
        exec(setup, scope)
        call = eval(f"lambda: {text}", scope)
        return training(T, lambda: call().sum(), [scope["x"]]) if training_too else call

    return make


_CALLS = {
    "lgamma": "T.lgamma(x)",
    "digamma": "T.digamma(x)",
    "gammainc": "T.special.gammainc(x, y)",
    "gammaincc": "T.special.gammaincc(x, y)",
    "polygamma": "T.special.polygamma(1, x)",
    "erfinv": "T.erfinv(y)",
    "zeta": "T.special.zeta(x + 1, y)",
    "trapezoid": "T.trapezoid(x)",
    "trapezoid x": "T.trapezoid(x, y)",
    "cumulative_trapezoid": "T.cumulative_trapezoid(x)",
    "diff": "T.diff(x)",
    "diff 0": "T.diff(x, dim=0)",
    "diff n=2": "T.diff(x, n=2)",
    "renorm": "T.renorm(x, 2, 0, 1.0)",
    "renorm 1": "T.renorm(x, 1, 1, 1.0)",
}
for _name, _text in _CALLS.items():
    KINDS[_name] = single(_text, "x, y = T.rand(256, 256) * 5 + 0.1, T.rand(256, 256)")
    KINDS[f"{_name} small"] = single(_text, "x, y = T.rand(4, 16) * 5 + 0.1, T.rand(4, 16)")
for _name in ("lgamma", "trapezoid", "diff", "renorm"):
    KINDS[f"{_name} training"] = single(_CALLS[_name], "x = (T.rand(256, 256) + 0.5).requires_grad_()", True)
KINDS |= {
    "combinations": single("T.combinations(x, 2)", "x = T.rand(100)"),
    "combinations 3": single("T.combinations(x, 3)", "x = T.rand(30)"),
    "combinations small": single("T.combinations(x, 2)", "x = T.arange(5)"),
    "combinations repeated": single("T.combinations(x, 2, with_replacement=True)", "x = T.rand(100)"),
    "cartesian_prod": single("T.cartesian_prod(x, x)", "x = T.rand(100)"),
    "embedding max_norm": single("F.embedding(i, x, max_norm=1.0)", "x, i = T.rand(1000, 64), T.arange(0, 1000, 7)"),
}


# -- measuring -------------------------------------------------------------------------------------------------------


def prepared(framework: str, name: str, threads: int) -> Callable[[], Any]:
    T = importlib.import_module(framework)
    if threads:
        T.set_num_threads(threads)
    T.manual_seed(0)
    return KINDS[name](T)


def shortest(call: Callable[[], Any], seconds: float, clock: Callable[[], float]) -> float:
    """The shortest time of one call; short calls are timed several at once."""
    start = clock()
    call()
    several = max(1, min(200, int(2e-4 / max(clock() - start, 1e-7))))
    best, end = math.inf, clock() + seconds
    while True:
        start = clock()
        for _ in range(several):
            call()
        stop = clock()
        best = min(best, (stop - start) / several)
        if stop > end:
            return best


def serve(framework: str, threads: int) -> None:
    """Reads names of kinds, one a line, and answers each with the time of a call."""
    warnings.simplefilter("ignore")
    ready: dict[str, Callable[[], Any]] = {}
    clock = time.process_time if threads == 1 else time.perf_counter
    for line in sys.stdin:
        name, seconds = json.loads(line)
        try:
            if name not in ready:
                ready = {name: prepared(framework, name, threads)}
                for _ in range(3):
                    ready[name]()
            answer: Any = shortest(ready[name], seconds, clock)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), flush=True)


def peak(framework: str, name: str, threads: int) -> float:
    """By how many MiB a kind of work raised the peak memory of this process, after a first call."""
    warnings.simplefilter("ignore")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    call = prepared(framework, name, threads)
    for _ in range(3):
        call()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="*", help="patterns of names, separated by commas")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.05, help="of a run")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        serve(chosen.serve, chosen.threads)
        return
    if chosen.peak:
        print(json.dumps(peak(*chosen.peak, chosen.threads)))
        return
    names = [n for n in KINDS if any(fnmatch.fnmatch(n, pattern) for pattern in chosen.only.split(","))]
    command = [sys.executable, __file__, "--threads", str(chosen.threads)]
    workers = {
        framework: subprocess.Popen(
            [*command, "--serve", framework], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for framework in ("torch", "flambeau")
    }
    print("| kind of work | PyTorch, µs | flambeau, µs | ratio |" + (" peak memory, MiB |" if chosen.memory else ""))
    print("| --- | ---: | ---: | ---: |" + (" ---: |" if chosen.memory else ""), flush=True)
    ratios = []
    for name in names:
        best = {framework: math.inf for framework in workers}
        error = ""
        for _ in range(chosen.rounds):
            for framework, worker in workers.items():
                assert worker.stdin and worker.stdout
                worker.stdin.write(json.dumps([name, chosen.seconds]) + "\n")
                worker.stdin.flush()
                answer = json.loads(worker.stdout.readline())
                if isinstance(answer, str):
                    error = f"{framework}: {answer}"
                else:
                    best[framework] = min(best[framework], answer)
            if error:
                break
        if error:
            print(f"| {name} | {error} |", flush=True)
            continue
        ratio = best["torch"] / best["flambeau"]
        ratios.append(ratio)
        line = f"| {name} | {1e6 * best['torch']:.1f} | {1e6 * best['flambeau']:.1f} | {ratio:.2f} |"
        if chosen.memory:
            peaks = [
                float(
                    subprocess.run(
                        [*command, "--peak", framework, name], capture_output=True, text=True, check=True
                    ).stdout
                )
                for framework in workers
            ]
            line += " {:.0f} → {:.0f} |".format(*peaks)
        print(line, flush=True)
    for worker in workers.values():
        assert worker.stdin
        worker.stdin.close()
        worker.wait()
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        ahead = sum(ratio >= 1 for ratio in ratios)
        print(f"\n{ahead} of {len(ratios)} ahead; geometric mean {mean:.2f}; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
