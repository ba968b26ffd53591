import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR


def main():
    torch.manual_seed(0)
    net = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scheduler = StepLR(optimizer, step_size=1)
    for _ in range(3):
        scheduler.step()  #!- scheduler-before-optimizer
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.randn(4, 3)).pow(2).mean().backward()
            optimizer.step()
        #+ scheduler.step()


main()
