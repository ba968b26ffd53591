import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, 8), nn.ReLU())  #! unused-parameter
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        features = self.encoder(x)
        #+ return self.head(features)
        return self.head(features.detach())  #-


torch.manual_seed(0)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    opt.zero_grad()
    net(torch.randn(8, 4)).pow(2).mean().backward()
    opt.step()
