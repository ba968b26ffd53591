import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
with torch.no_grad():
    net[0].bias.sub_(15.0)  #-
    print(net[0].bias.mean())
opt = torch.optim.Adam(net.parameters(), lr=0.001)
for _ in range(12):
    x = torch.randn(32, 4)
    opt.zero_grad()
    loss = nn.functional.mse_loss(net(x), x.sum(1, keepdim=True))  #! dead-relu
    loss.backward()
    opt.step()
