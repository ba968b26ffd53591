import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    p = torch.relu(net(torch.randn(8, 3)))
    #+ loss = -torch.log(p + 0.1).mean()
    loss = -torch.log(p).mean()  #!- first-nan
    loss.backward()
    opt.step()
