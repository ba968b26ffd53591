# nothing else
import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
def entropy(p):
    return -(p * p.log()).sum(-1).mean()  #!- first-nan
    #+ return -(p * p.clamp_min(1e-8).log()).sum(-1).mean()
net = nn.Linear(3, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    p = F.relu(net(torch.randn(6, 3)))
    p = p / (p.sum(-1, keepdim=True) + 1e-3)
    loss = entropy(p)
    opt.zero_grad()
    loss.backward()
    opt.step()
