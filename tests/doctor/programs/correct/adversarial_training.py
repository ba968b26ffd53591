import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
for _ in range(6):
    x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
    delta = nn.Parameter(torch.zeros_like(x))
    for _ in range(3):
        l = F.cross_entropy(net(x + delta), y)
        g, = torch.autograd.grad(l, delta)
        with torch.no_grad():
            delta.add_(0.05 * g.sign()).clamp_(-0.1, 0.1)
    opt.zero_grad()
    F.cross_entropy(net(x + delta.detach()), y).backward()
    opt.step()
