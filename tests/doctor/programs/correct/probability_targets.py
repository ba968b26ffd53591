import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    x = torch.randn(8, 4)
    y = F.one_hot(torch.randint(0, 3, (8,)), 3).float()
    mix = torch.rand(1)
    x, y = mix * x + (1 - mix) * x.flip(0), mix * y + (1 - mix) * y.flip(0)
    loss = F.cross_entropy(net(x), y, label_smoothing=0.1)
    opt.zero_grad()
    loss.backward()
    opt.step()
