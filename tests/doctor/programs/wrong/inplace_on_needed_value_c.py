import torch
import torch.nn as nn
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
    def forward(self, x):
        h = torch.exp(self.a(x))
        h[:, 0] = 0  #!- inplace-on-needed-value
        #+ h = h * torch.tensor([0.0, 1.0, 1.0, 1.0])
        return self.b(h)
torch.manual_seed(0)
m = Block()
opt = torch.optim.SGD(m.parameters(), lr=0.01)
for _ in range(3):
    opt.zero_grad()
    m(torch.randn(3, 4)).sum().backward()
    opt.step()
