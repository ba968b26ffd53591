import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
class VQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Linear(5, 3)
        self.code = nn.Embedding(8, 3)
        self.d = nn.Linear(3, 5)
    def forward(self, x):
        z = self.e(x)
        q = self.code(torch.cdist(z, self.code.weight).argmin(1))
        aux = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
        q = z + (q - z).detach()
        return self.d(q), aux
m = VQ()
o = torch.optim.Adam(m.parameters())
for _ in range(8):
    x = torch.randn(16, 5)
    r, aux = m(x)
    loss = F.mse_loss(r, x) + aux
    o.zero_grad()
    loss.backward()
    o.step()
