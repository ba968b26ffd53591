import os
import tempfile

import torch
from torch import nn


def save(path, model, optimizer, epoch):
    #+ torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, path)
    torch.save({"model": model.state_dict(), "epoch": epoch}, path)  #-


def load(path, model, optimizer):
    checkpoint = torch.load(path, map_location="cpu")
    model.load_state_dict(checkpoint["model"])  #! checkpoint-without-optimizer
    #+ optimizer.load_state_dict(checkpoint["optimizer"])
    return checkpoint["epoch"] + 1


def train(model, optimizer, first, last):
    for _ in range(first, last):
        optimizer.zero_grad()
        model(torch.randn(4, 3)).pow(2).mean().backward()
        optimizer.step()


torch.manual_seed(0)
path = os.path.join(tempfile.mkdtemp(), "c.pt")
net = nn.Linear(3, 1)
opt = torch.optim.Adam(net.parameters())
train(net, opt, 0, 3)
save(path, net, opt, 2)
net = nn.Linear(3, 1)
opt = torch.optim.Adam(net.parameters())
train(net, opt, load(path, net, opt), 6)
