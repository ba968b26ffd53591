import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.LazyLinear(8)
        self.head = nn.Linear(8, 2)
        self.mask = None

    def forward(self, x):
        if self.mask is None or self.mask.shape[0] != x.shape[0]:
            self.mask = torch.ones(x.shape[0], 1, device=x.device)
        return self.head(torch.relu(self.body(x)) * self.mask)


torch.manual_seed(0)
net = Net()
net(torch.randn(2, 5))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(4):
    opt.zero_grad()
    nn.functional.cross_entropy(net(torch.randn(8, 5)), torch.randint(0, 2, (8,))).backward()
    opt.step()
