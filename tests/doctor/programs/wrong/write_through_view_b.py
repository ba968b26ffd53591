import torch
from torch import nn

torch.manual_seed(0)
layer = nn.Linear(3, 3)
with torch.no_grad():
    #+ row = layer.weight[0].clone()
    row = layer.weight[0]  #-
    row.mul_(0.5)  #! write-through-view
    print(row.norm(), layer.weight.norm())
