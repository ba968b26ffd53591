import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
net = nn.Linear(4, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    x, y = torch.randn(5, 4), torch.randint(0, 3, (5,))
    loss = -F.softmax(net(x), dim=1).clamp(min=1e-9).log()[torch.arange(5), y].mean()  #!- log-of-softmax
    #+ loss = -F.log_softmax(net(x), dim=1)[torch.arange(5), y].mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
