import os
import tempfile

import torch
from torch import nn


def train(net, opt, steps):
    for _ in range(steps):
        opt.zero_grad()
        net(torch.randn(4, 3)).pow(2).mean().backward()
        opt.step()


torch.manual_seed(0)
folder = tempfile.mkdtemp()
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
train(net, opt, 3)
torch.save(net.state_dict(), os.path.join(folder, "model.pt"))
#+ torch.save(opt.state_dict(), os.path.join(folder, "opt.pt"))
# a new process would begin here
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
net.load_state_dict(torch.load(os.path.join(folder, "model.pt"), map_location="cpu"))  #! checkpoint-without-optimizer
#+ opt.load_state_dict(torch.load(os.path.join(folder, "opt.pt"), map_location="cpu"))
train(net, opt, 3)
