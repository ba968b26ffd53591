import torch
import torch.nn as nn
import torch.nn.functional as F
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = nn.Linear(3, 2).to(device)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
X, Y = torch.randn(32, 3).to(device), torch.randint(0, 2, (32,)).to(device)
data = [(a.to(device), b.to(device)) for a, b in zip(torch.randn(4, 8, 3), torch.randint(0, 2, (4, 8)))]
for i in torch.randperm(32).split(8):
    opt.zero_grad()
    F.cross_entropy(net(X[i]), Y[i]).backward()
    opt.step()
for a, b in data:
    opt.zero_grad()
    F.cross_entropy(net(a), b).backward()
    opt.step()
for k in range(3):
    xb, yb = X[k * 8:(k + 1) * 8], Y[k * 8:(k + 1) * 8]
    opt.zero_grad()
    F.cross_entropy(net(xb), yb).backward()
    opt.step()
