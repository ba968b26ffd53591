import math
import torch
import torch.nn as nn
import torch.nn.functional as F
class BayesLinear(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.mu = nn.Parameter(torch.empty(o, i).uniform_(-0.1, 0.1))
        self.rho = nn.Parameter(torch.full((o, i), -3.0))
        self.bias = nn.Parameter(torch.zeros(o))
    def forward(self, x):
        s = F.softplus(self.rho)
        self.kl = (s ** 2 + self.mu ** 2 - 2 * s.log() - 1).sum() / 2
        return F.linear(x, self.mu + s * torch.randn_like(s), self.bias)
torch.manual_seed(0)
net = nn.Sequential(BayesLinear(3, 16), nn.Tanh(), BayesLinear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(10):
    x = torch.randn(32, 3)
    loss = F.mse_loss(net(x), x[:, :1].sin()) + 1e-4 * sum(m.kl for m in net if isinstance(m, BayesLinear))
    opt.zero_grad()
    loss.backward()
    opt.step()
