import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
class Net(nn.Sequential):
    pass
net = Net(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 10))
optim = torch.optim.Adam(net.parameters())  #!- optimizer-of-old-parameters
net[2] = nn.Linear(8, 2)
#+ optim = torch.optim.Adam(net.parameters())
for _ in range(5):
    x, y = torch.randn(6, 4), torch.randint(0, 2, (6,))
    loss = F.cross_entropy(net(x), y)
    optim.zero_grad()
    loss.backward()
    optim.step()
