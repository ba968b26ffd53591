import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.backbone(x))


def main():
    torch.manual_seed(0)
    net = Net()
    for p in net.backbone.parameters():
        p.requires_grad = False
    #+ opt = torch.optim.SGD(net.head.parameters(), lr=0.1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)  #!- optimizer-misses-parameters
    for _ in range(4):
        opt.zero_grad()
        nn.functional.cross_entropy(net(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
        opt.step()


main()
