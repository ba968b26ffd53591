import torch, torch.nn as nn

torch.manual_seed(0)
# DDPG style
actor = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1), nn.Tanh())
critic = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
import copy

at, ct = copy.deepcopy(actor), copy.deepcopy(critic)
ao, co = torch.optim.Adam(actor.parameters(), 1e-3), torch.optim.Adam(critic.parameters(), 1e-3)
for _ in range(10):
    s, ns = torch.randn(16, 3), torch.randn(16, 3)
    a = torch.rand(16, 1)
    r = torch.randn(16, 1)
    with torch.no_grad():
        y = r + 0.9 * ct(torch.cat([ns, at(ns)], 1))
    co.zero_grad()
    nn.functional.mse_loss(critic(torch.cat([s, a], 1)), y).backward()
    co.step()
    ao.zero_grad()
    (-critic(torch.cat([s, actor(s)], 1)).mean()).backward()
    ao.step()
    for p, q in zip([*actor.parameters(), *critic.parameters()], [*at.parameters(), *ct.parameters()]):
        q.data.mul_(0.99).add_(0.01 * p.data)
