import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))
    opt.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    with torch.no_grad():
        norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
        steps = [0.05 * p.grad / (norm + 1e-12) for p in model.parameters()]
        for p, e in zip(model.parameters(), steps):
            p.add_(e)
    opt.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    with torch.no_grad():
        for p, e in zip(model.parameters(), steps):
            p.sub_(e)
    opt.step()
