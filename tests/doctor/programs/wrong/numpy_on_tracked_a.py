import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
out = net(torch.randn(4, 3))
#+ print(out.detach().numpy().mean())
print(out.numpy().mean())  #!- numpy-on-tracked
