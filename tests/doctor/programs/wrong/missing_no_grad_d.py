import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
x, xv = torch.randn(64, 3), torch.randn(32, 3)
for epoch in range(6):
    net.train()
    opt.zero_grad()
    loss = F.mse_loss(net(x), x[:, :1])
    loss.backward()
    opt.step()
    net.eval()
    val = F.mse_loss(net(xv), xv[:, :1]).item()  #!- missing-no-grad
    #+ with torch.no_grad():
        #+ val = F.mse_loss(net(xv), xv[:, :1]).item()
    print(epoch, val)
