import torch
import torch.nn as nn
import torch.nn.functional as F
class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(10, 8)
        self.mu, self.lv = nn.Linear(8, 2), nn.Linear(8, 2)
        self.dec = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 10))
    def forward(self, x):
        h = F.relu(self.enc(x))
        mu, lv = self.mu(h), self.lv(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * lv)
        return self.dec(z), mu, lv
torch.manual_seed(0)
m = VAE()
opt = torch.optim.Adam(m.parameters(), lr=1e-3)
for _ in range(20):
    x = torch.randn(16, 10)
    r, mu, lv = m(x)
    loss = F.mse_loss(r, x, reduction="sum") - 0.5 * torch.sum(1 + lv - mu.pow(2) - lv.exp())
    opt.zero_grad()
    loss.backward()
    opt.step()
