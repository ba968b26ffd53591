import torch
from torch import nn

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
C = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
g_opt = torch.optim.Adam(G.parameters(), lr=1e-4, betas=(0.5, 0.9))
c_opt = torch.optim.Adam(C.parameters(), lr=1e-4, betas=(0.5, 0.9))
for _ in range(3):
    for _ in range(3):
        real = torch.randn(8, 2) + 2
        fake = G(torch.randn(8, 2)).detach()
        mix = torch.rand(8, 1)
        between = (mix * real + (1 - mix) * fake).requires_grad_()
        slope = torch.autograd.grad(C(between).sum(), between, create_graph=True)[0]
        loss = C(fake).mean() - C(real).mean() + 10 * ((slope.norm(2, dim=1) - 1) ** 2).mean()
        c_opt.zero_grad()
        loss.backward()
        c_opt.step()
    g_opt.zero_grad()
    (-C(G(torch.randn(8, 2))).mean()).backward()
    g_opt.step()
