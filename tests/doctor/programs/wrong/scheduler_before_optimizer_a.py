import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.LambdaLR(opt, lambda n: 0.9**n)
for _ in range(4):
    opt.zero_grad()
    net(torch.randn(4, 3)).pow(2).mean().backward()
    scheduler.step()  #!- scheduler-before-optimizer
    opt.step()
    #+ scheduler.step()
