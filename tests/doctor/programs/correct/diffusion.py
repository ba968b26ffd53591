import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 32), nn.SiLU(), nn.Linear(32, 2))

    def forward(self, x, t):
        return self.net(torch.cat([x, t.unsqueeze(1)], dim=1))


torch.manual_seed(0)
net = Denoiser()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.2, 20), 0)
for _ in range(6):
    x = torch.randn(32, 2) * 0.5 + 2
    t = torch.randint(0, 20, (32,))
    noise = torch.randn_like(x)
    a = alphas[t].unsqueeze(1)
    loss = nn.functional.mse_loss(net(a.sqrt() * x + (1 - a).sqrt() * noise, t / 20), noise)
    opt.zero_grad()
    loss.backward()
    opt.step()
net.eval()
x = torch.randn(4, 2)
with torch.no_grad():
    for step in reversed(range(20)):
        t = torch.full((4,), step / 20)
        x = x - 0.05 * net(x, t)
print(x)
