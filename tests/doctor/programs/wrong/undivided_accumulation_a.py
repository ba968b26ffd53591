import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
steps = 4
opt.zero_grad()
for i in range(12):
    loss = nn.functional.mse_loss(net(torch.randn(4, 3)), torch.randn(4, 1))
    #+ loss = loss / steps
    loss.backward()  #! undivided-accumulation
    if (i + 1) % steps == 0:
        opt.step()
        opt.zero_grad()
