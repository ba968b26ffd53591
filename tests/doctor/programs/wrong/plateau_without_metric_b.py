import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
#+ plateau = ReduceLROnPlateau(opt, patience=3)
plateau = ReduceLROnPlateau(opt, patience=3, verbose=True)  #!- plateau-without-metric
for _ in range(4):
    opt.zero_grad()
    loss = net(torch.randn(4, 3)).pow(2).mean()
    loss.backward()
    opt.step()
    plateau.step(loss.item())
