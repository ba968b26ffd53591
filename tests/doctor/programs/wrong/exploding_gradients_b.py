import torch
from torch import nn

torch.manual_seed(0)
layers = []
for _ in range(15):
    #+ layers += [nn.Linear(8, 8), nn.LayerNorm(8), nn.ReLU()]
    layers += [nn.Linear(8, 8), nn.Sigmoid()]  #-
net = nn.Sequential(*layers, nn.Linear(8, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(8):
    x = torch.randn(32, 8)
    opt.zero_grad()
    loss = nn.functional.mse_loss(net(x), x.sum(1, keepdim=True))
    loss.backward()  #! exploding-gradients
    opt.step()
