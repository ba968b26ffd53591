import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.1), nn.Linear(4, 2))
net.eval()
with torch.no_grad():
    traced = torch.jit.trace(net, torch.randn(2, 3))
    print(torch.allclose(traced(torch.ones(1, 3)), net(torch.ones(1, 3))))
