import torch
from torch import nn


class MoE(nn.Module):
    def __init__(self, width=6, experts=3):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))

    def forward(self, x):
        weight, chosen = torch.softmax(self.gate(x), dim=-1).max(dim=-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows = chosen == i
            if rows.any():
                out[rows] = expert(x[rows])
        return out * weight.unsqueeze(-1)


torch.manual_seed(0)
net = nn.Sequential(MoE(), nn.Linear(6, 2))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(6):
    opt.zero_grad()
    nn.functional.cross_entropy(net(torch.randn(32, 6)), torch.randint(0, 2, (32,))).backward()
    opt.step()
