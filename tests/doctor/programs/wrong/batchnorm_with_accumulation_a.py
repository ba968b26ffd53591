import torch
from torch import nn

torch.manual_seed(0)
#+ norm = nn.LayerNorm(8)
norm = nn.BatchNorm1d(8)  #!- batchnorm-with-accumulation
net = nn.Sequential(nn.Linear(3, 8), norm, nn.Linear(8, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(12):
    loss = nn.functional.mse_loss(net(torch.randn(2, 3)), torch.randn(2, 1)) / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        opt.step()
        opt.zero_grad()
