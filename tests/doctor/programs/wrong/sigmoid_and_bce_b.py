import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 1)

    def forward(self, x):
        #+ return self.fc(x).squeeze(1)
        return self.fc(x).sigmoid().squeeze(1)  #-


torch.manual_seed(0)
net = Net()
opt = torch.optim.Adam(net.parameters())
for _ in range(3):
    x = torch.randn(8, 4)
    y = (x[:, 0] > 0).float()
    opt.zero_grad()
    #+ loss = F.binary_cross_entropy_with_logits(net(x), y)
    loss = F.binary_cross_entropy(net(x), y)  #!- sigmoid-and-bce
    loss.backward()
    opt.step()
