import torch
from torch import nn


class Weighted(nn.Module):
    def __init__(self, width):
        super().__init__()
        start = torch.full((width,), 0.5)
        #+ self.gain = nn.Parameter(start)
        self.gain = start.requires_grad_()  #!- unregistered-tensor
        self.fc = nn.Linear(width, 1)

    def forward(self, x):
        return self.fc(x * self.gain)


torch.manual_seed(0)
net = Weighted(3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    net(torch.randn(8, 3)).pow(2).mean().backward()
    opt.step()
