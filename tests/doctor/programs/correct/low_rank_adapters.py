import torch
from torch import nn


class LoRA(nn.Module):
    def __init__(self, base, rank=2):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, base.in_features) * 0.01)
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + x @ self.a.t() @ self.b.t()


torch.manual_seed(0)
net = nn.Sequential(LoRA(nn.Linear(6, 8)), nn.ReLU(), LoRA(nn.Linear(8, 3)))
opt = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=1e-2)
for _ in range(5):
    opt.zero_grad()
    nn.functional.cross_entropy(net(torch.randn(8, 6)), torch.randint(0, 3, (8,))).backward()
    opt.step()
