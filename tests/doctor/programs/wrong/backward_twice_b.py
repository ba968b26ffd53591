import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    x, y = torch.randn(8, 3), torch.randn(8, 1)
    opt.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    #+ loss.backward()
    loss.backward(retain_graph=True)  #!- backward-twice
    opt.step()
