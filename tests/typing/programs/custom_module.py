"""Modules of one's own: lists, dictionaries, buffers, hooks, initialisation."""

from __future__ import annotations

import flambeau as torch
import flambeau.nn as nn
import flambeau.nn.functional as F


class ResidualBlock(nn.Module):
    weight: nn.Parameter

    def __init__(self, channels: int, kernel_size: int = 3, bias: bool = True) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, kernel_size, padding=kernel_size // 2, bias=False)
        self.conv2 = nn.Conv2d(channels, channels, kernel_size, padding="same")
        self.norm = nn.BatchNorm2d(channels)
        self.weight = nn.Parameter(torch.empty(channels, 1, 1))
        self.bias = nn.Parameter(torch.zeros(channels, 1, 1)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.kaiming_normal_(self.conv1.weight, mode="fan_out", nonlinearity="relu")
        nn.init.ones_(self.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = F.relu(self.norm(self.conv1(x)), inplace=True)
        out = self.conv2(out) * self.weight
        if self.bias is not None:
            out = out + self.bias
        return F.leaky_relu(out + x, negative_slope=0.1)


class Network(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, (3, 3), stride=2, padding=1)
        self.blocks = nn.ModuleList(ResidualBlock(8) for _ in range(depth))
        self.heads = nn.ModuleDict({"class": nn.Linear(8, 5), "box": nn.Linear(8, 4)})

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        return {name: head(x) for name, head in self.heads.items()}


def remember(module: nn.Module, args: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
    seen.append(output.detach().abs().mean())


seen: list[torch.Tensor] = []
network = Network(2)
handle = network.stem.register_forward_hook(remember)
result = network(torch.rand(2, 3, 16, 16))
handle.remove()
for name, parameter in network.named_parameters():
    if "norm" in name:
        parameter.requires_grad_(False)
network.apply(lambda m: m.float())
state = {k: v.clone() for k, v in network.state_dict().items()}
network.load_state_dict(state, strict=True)
print(result["class"].shape, result["box"].size(-1), float(seen[0]), network.stem.weight.dtype)
