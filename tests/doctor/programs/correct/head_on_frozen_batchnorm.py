import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.fc = nn.Linear(16, 10)
    def forward(self, x):
        return self.fc(self.body(x))
net = Net()
for p in net.parameters():
    p.requires_grad = False
net.fc = nn.Linear(16, 2)
opt = torch.optim.SGD(net.fc.parameters(), lr=0.05)
for _ in range(6):
    net.train()
    net.body.eval()
    x, y = torch.randn(8, 1, 9, 9), torch.randint(0, 2, (8,))
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
