import torch
import torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(1, 3, 3)
        self.f = nn.Linear(3 * 16, 2)
    def forward(self, x):
        x = self.c(x).permute(0, 2, 3, 1)
        x = x.view(x.size(0), -1)  #!- view-after-transpose
        #+ x = x.flatten(1)
        return self.f(x)
print(Net()(torch.randn(2, 1, 6, 6)))
