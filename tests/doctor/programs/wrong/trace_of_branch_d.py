import torch
import torch.nn as nn
class Count(nn.Module):
    def forward(self, x):
        n = 0
        while x.abs().max() > 1:  #-
            x = x / 2  #-
            n += 1  #-
        #+ x = x / x.abs().max().clamp(min=1)
        return x
t = torch.jit.trace(Count(), torch.randn(3) * 4)  #! trace-of-branch
print(t(torch.ones(3)))
