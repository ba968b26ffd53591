import torch
from torch import nn


def make(names):
    return {name: nn.Linear(4, 2) for name in names}


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        #+ self.heads = nn.ModuleDict(make(["a", "b"]))
        self.heads = make(["a", "b"])  #!- layers-in-a-list

    def forward(self, x):
        x = self.body(x)
        return sum(head(x) for head in self.heads.values())


torch.manual_seed(0)
net = Heads()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    net(torch.randn(8, 4)).pow(2).mean().backward()
    opt.step()
