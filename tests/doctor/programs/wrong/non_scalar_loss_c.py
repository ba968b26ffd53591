import torch
import torch.nn as nn
torch.manual_seed(0)
net = nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(8, 4)
    loss = (net(x) - x[:, :2]) ** 2
    opt.zero_grad()
    torch.autograd.backward(loss)  #!- non-scalar-loss
    #+ torch.autograd.backward(loss.mean())
    opt.step()
