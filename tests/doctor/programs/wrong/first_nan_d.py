# nothing else
import torch
import torch.nn as nn
torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for i in range(5):
    x = torch.rand(8, 3)
    out = net(x)
    spread = torch.sqrt(out - out.mean())  #!- first-nan
    #+ spread = torch.sqrt((out - out.mean()) ** 2 + 1e-6)
    loss = spread.mean() + out.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
