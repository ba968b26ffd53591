"""`flambeau demo`: a two-layer network, written with raw tensors and autograd, learns to tell two spirals apart."""

from __future__ import annotations

import time
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


def run(steps: int, seed: int, picture: str) -> int:
    """Trains, reports, draws."""
    try:
        import matplotlib
        from tqdm import tqdm
    except ImportError:
        print("the demo shows a progress bar and draws a picture: pip install 'flambeau[demo]'")
        return 1
    matplotlib.use("Agg")
    generator = torch.Generator().manual_seed(seed)
    points, labels = spirals(2000, generator)
    train, test = slice(0, 1500), slice(1500, 2000)
    network = Network((6, 64, 64, 1), generator)
    velocity = [torch.zeros_like(p) for p in network.parameters()]
    inputs = features(points)
    losses = []
    began = time.perf_counter()
    progress = tqdm(range(steps), desc="training", unit="step")
    for step in progress:
        batch = torch.randint(0, 1500, (128,), generator=generator)
        loss = loss_of(network(inputs[batch]), labels[batch])
        loss.backward()
        rate = 0.2 * (1 - step / steps)
        with torch.no_grad():
            for p, v in zip(network.parameters(), velocity):
                v.mul_(0.9).add_(p.grad)
                p.sub_(rate * v)
                p.grad = None
        losses.append(loss.item())
        if step % 50 == 0:
            progress.set_postfix(loss=f"{losses[-1]:.4f}")
    seconds = time.perf_counter() - began
    with torch.no_grad():
        final = loss_of(network(inputs[train]), labels[train]).item()
        accuracy = accuracy_of(network(inputs[test]), labels[test])
    draw(picture, losses, points[test], labels[test], network)
    print(f"final loss {final:.4f}   test accuracy {100 * accuracy:.1f}%   {steps} steps in {seconds:.1f} s")
    print(f"curve and decision border saved to {picture}")
    return 0


def draw(path: str, losses: list[float], points: Any, labels: Any, network: Network) -> None:
    """The loss curve beside the border that the network learnt."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2))
    left.semilogy(losses, linewidth=0.7)
    left.set(title="training loss", xlabel="step", ylabel="binary cross entropy")
    axis = torch.linspace(-1.15, 1.15, 200)
    x, y = torch.meshgrid(axis, axis, indexing="xy")
    with torch.no_grad():
        scores = network(features(torch.stack([x.reshape(-1), y.reshape(-1)], 1))).reshape(200, 200)
    right.contourf(x.numpy(), y.numpy(), scores.sigmoid().numpy(), levels=20, cmap="RdBu_r", alpha=0.7)
    right.scatter(points[:, 0].numpy(), points[:, 1].numpy(), c=labels.numpy(), cmap="RdBu_r", s=6, edgecolors="k", linewidths=0.2)
    right.set(title="decision border and test points", aspect="equal")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
