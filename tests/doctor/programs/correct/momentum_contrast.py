import copy

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
query = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))
key = copy.deepcopy(query)
for p in key.parameters():
    p.requires_grad = False
queue = F.normalize(torch.randn(32, 4), dim=1)
opt = torch.optim.SGD(query.parameters(), lr=0.05)
for _ in range(5):
    x = torch.randn(8, 6)
    q = F.normalize(query(x), dim=1)
    with torch.no_grad():
        for a, b in zip(key.parameters(), query.parameters()):
            a.data = a.data * 0.99 + b.data * 0.01
        k = F.normalize(key(x + 0.1 * torch.randn(8, 6)), dim=1)
    logits = torch.cat([(q * k).sum(1, keepdim=True), q @ queue.t()], dim=1) / 0.1
    loss = F.cross_entropy(logits, torch.zeros(8, dtype=torch.long))
    opt.zero_grad()
    loss.backward()
    opt.step()
    queue = torch.cat([queue[8:], k])
