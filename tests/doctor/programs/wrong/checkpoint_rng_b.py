import torch
import torch.utils.checkpoint as cp
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.2)

    def forward(self, x):
        return self.drop(torch.relu(self.fc(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        #+ h = cp.checkpoint(self.block, x, use_reentrant=False, preserve_rng_state=True)
        h = cp.checkpoint(self.block, x, use_reentrant=False, preserve_rng_state=False)  #!- checkpoint-rng
        return self.head(h)


torch.manual_seed(0)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    opt.zero_grad()
    net(torch.randn(4, 4)).pow(2).mean().backward()
    opt.step()
