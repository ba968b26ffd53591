import math

import torch
from torch import nn


class Coupling(nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 2))
        self.flip = flip

    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        if self.flip:
            a, b = b, a
        s, t = self.net(a).chunk(2, dim=1)
        s = torch.tanh(s)
        b = b * s.exp() + t
        return torch.cat([b, a] if self.flip else [a, b], dim=1), s.sum(1)


torch.manual_seed(0)
layers = nn.ModuleList([Coupling(False), Coupling(True)])
opt = torch.optim.Adam(layers.parameters(), lr=1e-2)
for _ in range(6):
    x, total = torch.randn(32, 2) * 2 + 1, 0.0
    for layer in layers:
        x, s = layer(x)
        total = total + s
    loss = (0.5 * (x**2).sum(1) + math.log(2 * math.pi) - total).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
