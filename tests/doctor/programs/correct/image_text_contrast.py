import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
class Clip(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 4), nn.Linear(5, 4)
        self.t = nn.Parameter(torch.tensor(2.0))
    def forward(self, x, y):
        return F.normalize(self.a(x), dim=-1) @ F.normalize(self.b(y), dim=-1).T * self.t.exp()
m = Clip()
opt = torch.optim.AdamW(m.parameters(), lr=1e-3)
for _ in range(8):
    lg = m(torch.randn(10, 6), torch.randn(10, 5))
    lab = torch.arange(10)
    loss = (F.cross_entropy(lg, lab) + F.cross_entropy(lg.T, lab)) / 2
    opt.zero_grad()
    loss.backward()
    opt.step()
