import torch, torch.nn as nn, torch.nn.functional as F

torch.manual_seed(0)


# autoencoder denoise
class AE(nn.Module):
    def __init__(self, d=8, h=3):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d, 6), nn.ReLU(), nn.Linear(6, h))
        self.dec = nn.Sequential(nn.Linear(h, 6), nn.ReLU(), nn.Linear(6, d))

    def encode(self, x):
        return self.enc(x)

    def forward(self, x):
        return self.dec(self.encode(x))


m = AE()
o = torch.optim.Adam(m.parameters(), lr=1e-2)
for e in range(20):
    x = torch.rand(32, 8)
    o.zero_grad()
    l = F.mse_loss(m(x + 0.1 * torch.randn_like(x)), x)
    l.backward()
    o.step()
m.eval()
with torch.no_grad():
    print(m.encode(torch.rand(2, 8)))
