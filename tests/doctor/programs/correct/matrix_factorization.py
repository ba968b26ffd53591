import torch
import torch.nn as nn
import torch.nn.functional as F
class MF(nn.Module):
    def __init__(self, u, i, k=4):
        super().__init__()
        self.u, self.i = nn.Embedding(u, k), nn.Embedding(i, k)
        self.ub, self.ib = nn.Embedding(u, 1), nn.Embedding(i, 1)
        nn.init.zeros_(self.ub.weight)
        nn.init.zeros_(self.ib.weight)
    def forward(self, u, i):
        return (self.u(u) * self.i(i)).sum(-1) + self.ub(u).squeeze(-1) + self.ib(i).squeeze(-1)
torch.manual_seed(0)
m = MF(20, 30)
opt = torch.optim.Adagrad(m.parameters(), lr=0.1)
for _ in range(10):
    u, i = torch.randint(0, 20, (32,)), torch.randint(0, 30, (32,))
    r = torch.randint(1, 6, (32,)).float()
    loss = F.mse_loss(m(u, i), r)
    opt.zero_grad()
    loss.backward()
    opt.step()
