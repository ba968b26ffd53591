import math

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR, OneCycleLR

torch.manual_seed(0)
model = nn.Linear(4, 1)
batches = [torch.randn(8, 4) for _ in range(6)]
opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
warm = LambdaLR(opt, lambda step: min(1.0, (step + 1) / 5) * 0.5 * (1 + math.cos(math.pi * step / 18)))
for _ in range(3):
    for x in batches:
        opt.zero_grad()
        model(x).pow(2).mean().backward()
        opt.step()
        warm.step()
opt = torch.optim.SGD(model.parameters(), lr=1e-2)
cycle = OneCycleLR(opt, max_lr=0.1, total_steps=3 * len(batches))
for _ in range(3):
    for x in batches:
        opt.zero_grad()
        model(x).pow(2).mean().backward()
        opt.step()
        cycle.step()
