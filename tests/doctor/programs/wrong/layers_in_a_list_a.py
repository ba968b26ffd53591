import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        #+ self.blocks = nn.ModuleList()
        self.blocks = []  #!- layers-in-a-list
        for _ in range(2):
            self.blocks.append(nn.Linear(4, 4))
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        for block in self.blocks:
            x = torch.tanh(block(x))
        return self.head(x)


torch.manual_seed(0)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    net(torch.randn(8, 4)).pow(2).mean().backward()
    opt.step()
