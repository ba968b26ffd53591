"""A small network, written with raw tensors and autograd only, tells two spirals apart: at least 99 % of test points.

Runs on flambeau and, with `import torch` instead, on PyTorch.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import flambeau as torch


def spirals(count: int, generator: Any) -> tuple[Any, Any]:
    """Points on two interleaved spirals with noise, and which spiral each is on."""
    angle = torch.rand(count, generator=generator).sqrt() * 9.0
    label = torch.arange(count) % 2
    turn = angle + label * torch.pi
    points = torch.stack([angle * turn.cos(), angle * turn.sin()], 1) / 9.0
    return points + 0.02 * torch.randn(count, 2, generator=generator), label


def features(points: Any) -> Any:
    """Coordinates and a few of their waves: what a narrow network needs to bend its border."""
    return torch.cat([points, (3 * points).sin(), (3 * points).cos()], 1)


class Network:
    """Three affine layers with tanh between them; no module system, only tensors."""

    def __init__(self, widths: tuple[int, ...], generator: Any):
        self.layers = []
        for fan_in, fan_out in pairwise(widths):
            weight = torch.randn(fan_in, fan_out, generator=generator) / fan_in**0.5
            self.layers.append((weight.requires_grad_(), torch.zeros(fan_out, requires_grad=True)))

    def __call__(self, x: Any) -> Any:
        for weight, bias in self.layers[:-1]:
            x = torch.tanh(x @ weight + bias)
        weight, bias = self.layers[-1]
        return (x @ weight + bias).squeeze(1)

    def parameters(self) -> list[Any]:
        return [p for layer in self.layers for p in layer]


def loss_of(scores: Any, labels: Any) -> Any:
    """Mean of -log p(label), from scores that are log-odds."""
    targets = labels.float()
    return (scores.clamp(min=0) - scores * targets + torch.log1p(torch.exp(-scores.abs()))).mean()


def accuracy_of(scores: Any, labels: Any) -> float:
    return ((scores > 0).long() == labels).float().mean().item()


def main(steps: int = 1500, seed: int = 0) -> float:
    """Trains; returns the share of test points that are told apart."""
    generator = torch.Generator().manual_seed(seed)
    points, labels = spirals(2000, generator)
    inputs, test = features(points), slice(1500, 2000)
    network = Network((6, 64, 64, 1), generator)
    velocity = [torch.zeros_like(p) for p in network.parameters()]
    for step in range(steps):
        batch = torch.randint(0, 1500, (128,), generator=generator)
        loss = loss_of(network(inputs[batch]), labels[batch])
        loss.backward()
        rate = 0.2 * (1 - step / steps)
        with torch.no_grad():
            for p, v in zip(network.parameters(), velocity):
                v.mul_(0.9).add_(p.grad)
                p.sub_(rate * v)
                p.grad = None
    with torch.no_grad():
        accuracy = accuracy_of(network(inputs[test]), labels[test])
    print(f"loss {loss.item():.4f}   test accuracy {accuracy:.1%}")
    return accuracy


if __name__ == "__main__":
    main()
