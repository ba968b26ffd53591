import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
total = 0.0
for _ in range(5):
    opt.zero_grad()
    loss = nn.functional.mse_loss(net(torch.randn(8, 3)), torch.randn(8, 1))
    loss.backward()
    opt.step()
    #+ total += loss.item()
    total += loss  #!- graph-kept-by-logging
print(float(total))
