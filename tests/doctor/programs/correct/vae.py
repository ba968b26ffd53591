import torch
import torch.nn.functional as F
from torch import nn


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(8, 16)
        self.mu = nn.Linear(16, 2)
        self.logvar = nn.Linear(16, 2)
        self.dec = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 8))

    def forward(self, x):
        h = torch.relu(self.enc(x))
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.dec(z), mu, logvar


torch.manual_seed(0)
vae = VAE()
opt = torch.optim.Adam(vae.parameters(), lr=1e-3)
for _ in range(5):
    x = torch.rand(16, 8)
    logits, mu, logvar = vae(x)
    loss = (
        F.binary_cross_entropy_with_logits(logits, x, reduction="sum") - 0.5 * (1 + logvar - mu**2 - logvar.exp()).sum()
    )
    opt.zero_grad()
    loss.backward()
    opt.step()
vae.eval()
with torch.no_grad():
    print(torch.sigmoid(vae.dec(torch.randn(2, 2))).shape)
