import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        #+ self.norm = nn.GroupNorm(2, 4)
        self.norm = nn.BatchNorm2d(4)  #!- batchnorm-with-accumulation
        self.fc = nn.Linear(4 * 16, 2)

    def forward(self, x):
        return self.fc(torch.relu(self.norm(self.conv(x))).flatten(1))


torch.manual_seed(0)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.05)
accumulate = 4
for _ in range(3):
    opt.zero_grad()
    for _ in range(accumulate):
        loss = nn.functional.cross_entropy(net(torch.randn(2, 1, 6, 6)), torch.randint(0, 2, (2,)))
        (loss / accumulate).backward()
    opt.step()
