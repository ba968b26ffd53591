import torch
import torch.nn as nn
torch.manual_seed(0)
class R(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 1))
    def forward(self, x):
        return self.n(x)  #-
        #+ return self.n(x).flatten()
m = R()
opt = torch.optim.Adam(m.parameters())
lf = nn.SmoothL1Loss()
for _ in range(5):
    x = torch.randn(12, 2)
    loss = lf(m(x), x.sum(dim=1))  #! accidental-broadcast
    opt.zero_grad()
    loss.backward()
    opt.step()
