import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = nn.Linear(c, 2 * c), nn.Linear(2 * c, c)
        nn.init.zeros_(self.b.weight)
        nn.init.zeros_(self.b.bias)

    def forward(self, x):
        return x + self.b(torch.relu(self.a(x)))


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), Block(8), Block(8), nn.Linear(8, 2))
opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
for _ in range(5):
    opt.zero_grad()
    nn.functional.cross_entropy(net(torch.randn(16, 4)), torch.randint(0, 2, (16,))).backward()
    opt.step()
