import torch
import torch.nn as nn
torch.manual_seed(0)
G = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
og = torch.optim.Adam(G.parameters(), lr=2e-4, betas=(0.5, 0.999))
od = torch.optim.Adam(D.parameters(), lr=2e-4, betas=(0.5, 0.999))
bce = nn.BCEWithLogitsLoss()
for _ in range(20):
    real = torch.randn(32, 2) + 3
    fake = G(torch.randn(32, 4))
    dl = bce(D(real), torch.ones(32, 1)) + bce(D(fake.detach()), torch.zeros(32, 1))
    od.zero_grad()
    dl.backward()
    od.step()
    gl = bce(D(fake), torch.ones(32, 1))
    og.zero_grad()
    gl.backward()
    og.step()
print(dl.item(), gl.item())
