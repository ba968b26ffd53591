import torch
from torch import nn

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
D = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Dropout(0.1), nn.Linear(8, 1))
g_opt = torch.optim.Adam(G.parameters(), lr=1e-3)
d_opt = torch.optim.Adam(D.parameters(), lr=1e-3)
criterion = nn.BCEWithLogitsLoss()
for _ in range(8):
    real = torch.randn(16, 2) + 3
    d_opt.zero_grad()
    with torch.no_grad():
        fake = G(torch.randn(16, 2))
    d_real = criterion(D(real), torch.ones(16, 1))
    d_fake = criterion(D(fake), torch.zeros(16, 1))
    d_real.backward()
    d_fake.backward()
    d_opt.step()
    g_opt.zero_grad()
    g_loss = criterion(D(G(torch.randn(16, 2))), torch.ones(16, 1))
    g_loss.backward()
    g_opt.step()
