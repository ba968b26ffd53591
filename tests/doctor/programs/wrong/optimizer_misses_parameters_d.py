import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
for p in net[0].parameters():
    p.requires_grad_(False)
opt = torch.optim.SGD(net.parameters(), lr=0.1)  #!- optimizer-misses-parameters
#+ opt = torch.optim.SGD((p for p in net.parameters() if p.requires_grad), lr=0.1)
for _ in range(5):
    x, y = torch.randn(6, 4), torch.randint(0, 2, (6,))
    opt.zero_grad()
    F.cross_entropy(net(x), y).backward()
    opt.step()
