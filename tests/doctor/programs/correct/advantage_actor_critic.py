import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
critic = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
oa, oc = torch.optim.Adam(actor.parameters(), 1e-3), torch.optim.Adam(critic.parameters(), 1e-3)
for ep in range(6):
    s = torch.randn(20, 3)
    dist = torch.distributions.Categorical(logits=actor(s))
    a = dist.sample()
    r = (a == (s[:, 0] > 0).long()).float()
    v = critic(s).squeeze(-1)
    adv = (r - v).detach()
    la = -(dist.log_prob(a) * adv).mean() - 0.01 * dist.entropy().mean()
    lc = F.mse_loss(v, r)
    oa.zero_grad()
    la.backward()
    oa.step()
    oc.zero_grad()
    lc.backward()
    oc.step()
