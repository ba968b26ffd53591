import torch
from torch import nn


class Dense(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        #+ self.weight = nn.Parameter(torch.randn(inputs, outputs) / inputs**0.5)
        self.weight = nn.Parameter(torch.rand(inputs, outputs))  #!- uniform-initial-weights

    def forward(self, x):
        return x @ self.weight


torch.manual_seed(0)
net = Dense(8, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(3):
    opt.zero_grad()
    net(torch.randn(4, 8)).pow(2).mean().backward()
    opt.step()
