"""A decoder as in libraries of transformers: rotary positions, a cache, masks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import Tensor, nn


@dataclass
class Config:
    vocabulary: int = 50
    width: int = 32
    heads: int = 4
    layers: int = 2
    dtype: torch.dtype = torch.float32


class RMSNorm(nn.Module):
    def __init__(self, width: int, eps: float = 1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        kind = x.dtype
        x = x.to(torch.float32)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * x.to(kind)


def rotate_half(x: Tensor) -> Tensor:
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-second, first), dim=-1)


class Attention(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.heads, self.size = config.heads, config.width // config.heads
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=False)
        self.out = nn.Linear(config.width, config.width, bias=False)

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, cache: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, self.size).permute(2, 0, 3, 1, 4).unbind(0)
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
        mask = torch.full((length, k.size(2)), float("-inf"), device=x.device).triu(k.size(2) - length + 1)
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(self.size) + mask
        slow = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype) @ v
        fast = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=0.0)
        assert torch.allclose(slow, fast, atol=0.05)
        return self.out(fast.transpose(1, 2).reshape(batch, length, -1)), (k, v)


class Model(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.layers = nn.ModuleList([Attention(config) for _ in range(config.layers)])
        self.norm = RMSNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.head.weight = self.embedding.weight

    def positions(self, length: int, start: int = 0) -> tuple[Tensor, Tensor]:
        size = self.config.width // self.config.heads
        frequencies = 1.0 / (10000 ** (torch.arange(0, size, 2).float() / size))
        angles = torch.outer(torch.arange(start, start + length, dtype=torch.float32), frequencies)
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos(), angles.sin()

    def forward(self, tokens: Tensor, labels: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = self.embedding(tokens)
        cos, sin = self.positions(tokens.size(1))
        for layer in self.layers:
            attended, _ = layer(self.norm(x), cos, sin)
            x = x + attended
        logits: Tensor = self.head(self.norm(x))
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1), ignore_index=-100)
        return logits, loss

    @torch.inference_mode()
    def generate(self, tokens: Tensor, count: int, temperature: float = 1.0, top_k: int | None = 5) -> Tensor:
        for _ in range(count):
            logits = self(tokens)[0][:, -1, :] / temperature
            if top_k is not None:
                values, _ = torch.topk(logits, min(top_k, logits.size(-1)))
                logits = logits.masked_fill(logits < values[:, [-1]], -float("inf"))
            chosen = torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)
            tokens = torch.cat((tokens, chosen), dim=1)
        return tokens


torch.manual_seed(0)
model = Model(Config())
tokens = torch.randint(0, 50, (2, 8))
logits, loss = model(tokens, labels=tokens)
assert loss is not None
loss.backward()
with torch.autocast("cpu", dtype=torch.bfloat16):
    model(tokens)
print(loss.item(), model.generate(tokens, 3).shape, sum(p.numel() for p in model.parameters()) / 1e3)
