import torch
from torch import nn
from torch.nn.utils import clip_grad_value_


def update(net, opt, x):
    opt.zero_grad()
    net(x).pow(2).mean().backward()
    #+ clip_grad_value_(net.parameters(), 0.5)
    opt.step()
    clip_grad_value_(net.parameters(), 0.5)  #!- clipping-order


torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    update(net, opt, torch.randn(4, 3))
