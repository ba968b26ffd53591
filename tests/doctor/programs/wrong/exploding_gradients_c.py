import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
layers = []
for _ in range(30):
    layers += [nn.Linear(16, 16), nn.Sigmoid()]  #-
    #+ layers += [nn.Linear(16, 16), nn.LayerNorm(16), nn.ReLU()]
net = nn.Sequential(*layers, nn.Linear(16, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(10):
    x = torch.randn(16, 16)
    loss = F.mse_loss(net(x), x[:, :1])
    opt.zero_grad()
    loss.backward()  #! exploding-gradients
    opt.step()
