import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        #+ self.first = nn.Parameter(torch.randn(4, 8) * 0.3)
        self.first = nn.Parameter(torch.zeros(4, 8))  #!- constant-initial-weights
        self.second = nn.Parameter(torch.zeros(8, 1))

    def forward(self, x):
        return torch.relu(x @ self.first) @ self.second


torch.manual_seed(0)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    nn.functional.mse_loss(net(torch.randn(8, 4)), torch.randn(8, 1)).backward()
    opt.step()
