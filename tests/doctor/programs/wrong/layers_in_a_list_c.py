# nothing else
import torch
import torch.nn as nn
import torch.nn.functional as F
class Multi(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = {k: nn.Linear(4, 1) for k in ("a", "b")}  #!- layers-in-a-list
        #+ self.heads = nn.ModuleDict({k: nn.Linear(4, 1) for k in ("a", "b")})
        self.trunk = nn.Linear(3, 4)
    def forward(self, x):
        h = F.relu(self.trunk(x))
        return {k: f(h) for k, f in self.heads.items()}
torch.manual_seed(0)
m = Multi()
opt = torch.optim.SGD(m.parameters(), lr=0.1)
for _ in range(3):
    o = m(torch.randn(5, 3))
    loss = o["a"].pow(2).mean() + (o["b"] - 1).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
