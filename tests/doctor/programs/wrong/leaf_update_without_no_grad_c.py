import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
net = nn.Linear(3, 1)
for _ in range(4):
    x = torch.randn(6, 3)
    net.zero_grad()
    loss = F.mse_loss(net(x), x[:, :1])
    loss.backward()
    for p in net.parameters():
        p.sub_(0.1 * p.grad)  #!- leaf-update-without-no-grad
        #+ p.data.sub_(0.1 * p.grad)
