import torch
import torch.nn.functional as F
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8))
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


def info_nce(a, b, scale):
    logits = a @ b.t() * scale.exp()
    labels = torch.arange(len(a))
    return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2


torch.manual_seed(0)
encoder = Encoder()
opt = torch.optim.AdamW(encoder.parameters(), lr=1e-3)
for _ in range(4):
    x = torch.randn(16, 6)
    loss = info_nce(encoder(x + 0.1 * torch.randn_like(x)), encoder(x + 0.1 * torch.randn_like(x)), encoder.scale)
    opt.zero_grad()
    loss.backward()
    opt.step()
