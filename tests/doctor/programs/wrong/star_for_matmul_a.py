import torch
from torch import nn


class Square(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4) / 2)

    def forward(self, x):
        #+ return x @ self.weight
        return x * self.weight  #?- star-for-matmul


torch.manual_seed(0)
net = Square()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    net(torch.randn(4, 4)).pow(2).mean().backward()
    opt.step()
