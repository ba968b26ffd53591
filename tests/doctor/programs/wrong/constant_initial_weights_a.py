import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 8)
        self.b = nn.Linear(8, 1)
        for layer in (self.a, self.b):
            #+ nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.weight)  #!- constant-initial-weights

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


torch.manual_seed(0)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    net(torch.randn(8, 4)).pow(2).mean().backward()
    opt.step()
