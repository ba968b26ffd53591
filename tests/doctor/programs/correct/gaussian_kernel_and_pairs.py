import torch
from torch import nn


def kernel(a, b):
    return torch.exp(-((a.unsqueeze(1) - b.unsqueeze(0)) ** 2).sum(-1))


torch.manual_seed(0)
net = nn.Linear(3, 2)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(4):
    a, b = net(torch.randn(8, 3)), torch.randn(8, 2)
    mmd = kernel(a, a).mean() + kernel(b, b).mean() - 2 * kernel(a, b).mean()
    opt.zero_grad()
    mmd.backward()
    opt.step()
scores = torch.randn(6)
print((scores.unsqueeze(1) - scores).shape)
