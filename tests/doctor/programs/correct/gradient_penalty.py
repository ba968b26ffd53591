import torch
import torch.nn as nn
torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))
for _ in range(6):
    r, f = torch.randn(8, 2), torch.randn(8, 2) + 2
    e = torch.rand(8, 1)
    mix = (e * r + (1 - e) * f).requires_grad_()
    gr = torch.autograd.grad(critic(mix).sum(), mix, create_graph=True)[0]
    loss = critic(f).mean() - critic(r).mean() + 10 * ((gr.norm(dim=1) - 1) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
