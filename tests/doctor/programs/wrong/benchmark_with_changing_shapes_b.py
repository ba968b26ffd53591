import random

import torch
import torch.backends.cudnn as cudnn
from torch import nn

#+ cudnn.benchmark = False
cudnn.benchmark = True  #!- benchmark-with-changing-shapes
random.seed(0)
torch.manual_seed(0)
net = nn.Sequential(nn.Conv1d(2, 4, 3), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
for length in random.sample(range(5, 40), 12):
    opt.zero_grad()
    net(torch.randn(4, 2, length)).pow(2).mean().backward()
    opt.step()
cudnn.benchmark = False
