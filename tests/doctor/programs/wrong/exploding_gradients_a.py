import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
x = torch.randn(32, 4)
y = x.sum(1, keepdim=True)
#+ opt = torch.optim.SGD(net.parameters(), lr=0.01)
opt = torch.optim.SGD(net.parameters(), lr=3.0)  #-
for _ in range(15):
    opt.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()  #! exploding-gradients
    opt.step()
