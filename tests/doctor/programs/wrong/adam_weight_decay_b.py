import torch
from torch import nn


def optimizer_for(model, kind, **options):
    return kind(model.parameters(), **options)  #! adam-weight-decay


torch.manual_seed(0)
net = nn.Linear(3, 1)
#+ opt = optimizer_for(net, torch.optim.AdamW, weight_decay=0.01)
opt = optimizer_for(net, torch.optim.Adam, weight_decay=0.01)  #-
for _ in range(3):
    opt.zero_grad()
    net(torch.randn(4, 3)).pow(2).mean().backward()
    opt.step()
