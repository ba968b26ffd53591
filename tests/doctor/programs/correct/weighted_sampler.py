import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

torch.manual_seed(0)
x = torch.randn(40, 3)
y = (torch.arange(40) < 5).long()
weights = torch.where(y == 1, 1 / 5, 1 / 35)
loader = DataLoader(TensorDataset(x, y), batch_size=8, sampler=WeightedRandomSampler(weights, 40))
net = nn.Linear(3, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
seen, total = 0, 0.0
for a, b in loader:
    opt.zero_grad()
    loss = nn.functional.cross_entropy(net(a), b)
    loss.backward()
    opt.step()
    total += loss.item() * a.size(0)
    seen += a.size(0)
print(total / seen)
