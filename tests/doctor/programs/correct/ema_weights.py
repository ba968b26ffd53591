import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
average = copy.deepcopy(model)
for p in average.parameters():
    p.requires_grad_(False)
opt = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(6):
    x = torch.randn(16, 4)
    opt.zero_grad()
    nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
    opt.step()
    with torch.no_grad():
        for a, p in zip(average.parameters(), model.parameters()):
            a.mul_(0.9).add_(p, alpha=0.1)
average.eval()
with torch.no_grad():
    print(average(torch.randn(2, 4)))
