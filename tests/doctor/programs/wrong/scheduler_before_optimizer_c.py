import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
sch = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 20)
for i in range(20):
    x = torch.randn(4, 3)
    opt.zero_grad()
    F.mse_loss(net(x), x[:, :1]).backward()
    sch.step()  #!- scheduler-before-optimizer
    opt.step()
    #+ sch.step()
