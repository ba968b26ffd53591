import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(opt, step_size=2, gamma=0.1)
batches = [torch.randn(4, 3) for _ in range(5)]
for epoch in range(3):
    for x in batches:
        opt.zero_grad()
        net(x).pow(2).mean().backward()
        opt.step()
        scheduler.step()  #!- scheduler-cadence
    #+ scheduler.step()
