import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    opt.zero_grad()
    loss = net(torch.randn(4, 3)).pow(2).mean()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)  #!- clipping-order
    loss.backward()
    #+ torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
