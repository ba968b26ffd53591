import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
x, y = torch.randn(8, 3), torch.randn(8, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
out = net(x)
for _ in range(3):
    opt.zero_grad()
    #+ out = net(x)
    loss = nn.functional.mse_loss(out, y)
    loss.backward()  #! backward-twice
    opt.step()
