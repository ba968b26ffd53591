import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1), nn.Sigmoid())  #-
#+ net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
opt = torch.optim.Adam(net.parameters())
for _ in range(4):
    x = torch.randn(6, 3)
    y = (x[:, 0] > 0).float()
    loss = F.binary_cross_entropy(net(x).view(-1), y)  #!- sigmoid-and-bce
    #+ loss = F.binary_cross_entropy_with_logits(net(x).view(-1), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
