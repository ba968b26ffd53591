import torch
from torch import nn


def sgd(parameters, lr):
    for p in parameters:
        #+ p.data.sub_(lr * p.grad)
        p.sub_(lr * p.grad)  #!- leaf-update-without-no-grad
        p.grad.zero_()


torch.manual_seed(0)
net = nn.Linear(3, 1)
for _ in range(3):
    net(torch.randn(4, 3)).pow(2).mean().backward()
    sgd(net.parameters(), 0.1)
