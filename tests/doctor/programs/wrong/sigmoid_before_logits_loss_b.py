import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(4, 6),
            nn.ReLU(),
            nn.Linear(6, 1),
            nn.Sigmoid(),  #-
        )

    def forward(self, x):
        return self.body(x)


def step(net, opt, x):
    opt.zero_grad()
    loss = F.binary_cross_entropy_with_logits(net(x).view(-1), (x[:, 0] > 0).float())  #! sigmoid-before-logits-loss
    loss.backward()
    opt.step()


torch.manual_seed(0)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    step(net, opt, torch.randn(8, 4))
