import torch
from torch import nn


class Gate(nn.Module):
    def forward(self, x):
        #+ return torch.where(x.sum() > 0, x * 2, x - 1)
        if x.sum() > 0:  #-
            return x * 2  #-
        return x - 1  #-


example = torch.ones(3)
traced = torch.jit.trace(Gate(), example)  #! trace-of-branch
print(traced(-example))
