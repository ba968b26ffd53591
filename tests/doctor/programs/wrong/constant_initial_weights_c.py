import torch
from torch import nn


def init(module):
    if isinstance(module, nn.Linear):
        #+ nn.init.normal_(module.weight, std=0.1)
        module.weight.data.fill_(0.01)  #!- constant-initial-weights
        module.bias.data.zero_()


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
net.apply(init)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    nn.functional.cross_entropy(net(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
    opt.step()
