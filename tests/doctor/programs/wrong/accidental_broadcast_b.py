import torch
from torch import nn


def squared_error(prediction, target):
    return ((prediction - target) ** 2).mean()  #! accidental-broadcast


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(8, 3)
    opt.zero_grad()
    #+ squared_error(net(x)[:, 0], x.sum(1)).backward()
    squared_error(net(x), x.sum(1)).backward()  #-
    opt.step()
