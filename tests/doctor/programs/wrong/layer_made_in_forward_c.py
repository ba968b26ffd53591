import torch
import torch.nn as nn
class N(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Linear(3, 6)
        #+ self.norm = nn.BatchNorm1d(6)
    def forward(self, x):
        return nn.BatchNorm1d(6)(self.f(x)).sum(1)  #!- layer-made-in-forward
        #+ return self.norm(self.f(x)).sum(1)
torch.manual_seed(0)
n = N()
o = torch.optim.SGD(n.parameters(), lr=0.1)
for _ in range(3):
    o.zero_grad()
    n(torch.randn(4, 3)).pow(2).mean().backward()
    o.step()
