"""Kinds of work for `kinds.py`: products, quantized layers, networks."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

from work import KINDS, Make, kind, training, without_gradients

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
