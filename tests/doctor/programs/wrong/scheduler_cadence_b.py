import torch
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR


def train_epoch(net, opt, batches, scheduler):
    for x in batches:
        opt.zero_grad()
        net(x).pow(2).mean().backward()
        opt.step()
        #+ scheduler.step()


def main():
    torch.manual_seed(0)
    net = nn.Linear(3, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    batches = [torch.randn(4, 3) for _ in range(5)]
    scheduler = OneCycleLR(opt, max_lr=0.1, epochs=3, steps_per_epoch=len(batches))
    for _ in range(3):
        train_epoch(net, opt, batches, scheduler)
        scheduler.step()  #!- scheduler-cadence


if __name__ == "__main__":
    main()
