import torch
from torch import nn


class Normalised(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        h = self.fc(x)
        #+ return h / (h.max(dim=0).values - h.min(dim=0).values + 1e-6)
        return h / (h.max(dim=0).values - h.min(dim=0).values)  #!- first-nan


torch.manual_seed(0)
net = Normalised()
opt = torch.optim.SGD(net.parameters(), lr=1e-9)
for _ in range(3):
    opt.zero_grad()
    net(torch.ones(1, 3)).mean().backward()
    opt.step()
