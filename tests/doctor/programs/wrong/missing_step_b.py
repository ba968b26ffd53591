import torch
from torch import nn


def fit(model, optimizer, steps):
    loss_fn = nn.MSELoss()
    for _ in range(steps):
        x = torch.randn(8, 4)
        optimizer.zero_grad()
        loss_fn(model(x), x.sum(1, keepdim=True)).backward()  #! missing-step
        #+ optimizer.step()
        optimizer.step  #-


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
fit(net, torch.optim.SGD(net.parameters(), lr=0.1), 5)
