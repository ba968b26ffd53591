import torch
from torch import nn


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.heads = nn.ModuleDict({"class": nn.Linear(8, 3), "value": nn.Linear(8, 1)})

    def forward(self, x):
        h = self.trunk(x)
        return {name: head(h) for name, head in self.heads.items()}


torch.manual_seed(0)
net = MultiTask()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
history = []
for _ in range(5):
    x = torch.randn(16, 4)
    out = net(x)
    first = nn.functional.cross_entropy(out["class"], torch.randint(0, 3, (16,)))
    second = nn.functional.mse_loss(out["value"].squeeze(-1), x.sum(1))
    opt.zero_grad()
    first.backward(retain_graph=True)
    second.backward()
    opt.step()
    history.append((first.item(), second.item()))
print(history[-1])
