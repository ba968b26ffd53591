import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 8)
        self.b = nn.Linear(8, 1)
        nn.init.constant_(self.a.bias, -20.0)  #-

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))  #! dead-relu


torch.manual_seed(0)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(12):
    x = torch.randn(32, 4)
    opt.zero_grad()
    nn.functional.mse_loss(net(x), x.sum(1, keepdim=True)).backward()
    opt.step()
