import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


torch.manual_seed(0)
net = Net()
#+ net.head = nn.Linear(8, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)  #! optimizer-of-old-parameters
net.head = nn.Linear(8, 2)  #-
for _ in range(4):
    opt.zero_grad()
    nn.functional.cross_entropy(net(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
    opt.step()
