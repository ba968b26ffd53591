import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
class N(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))  #! unused-parameter
        self.f = nn.Linear(3, 1)
    def forward(self, x):
        return self.f(x) * self.scale.item()  #-
        #+ return self.f(x) * self.scale
n = N()
o = torch.optim.SGD(n.parameters(), lr=0.1)
for _ in range(5):
    x = torch.randn(4, 3)
    o.zero_grad()
    F.mse_loss(n(x), x[:, :1]).backward()
    o.step()
