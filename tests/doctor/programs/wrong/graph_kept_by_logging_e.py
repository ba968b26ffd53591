import torch
import torch.nn as nn
import torch.nn.functional as F
class Meter:
    def __init__(self):
        self.total, self.n = 0, 0
    def update(self, v):
        self.total = self.total + v
        self.n += 1
torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
meter = Meter()
for i in range(15):
    x = torch.randn(8, 3)
    opt.zero_grad()
    loss = F.mse_loss(net(x), x[:, :1])
    loss.backward()
    opt.step()
    meter.update(loss)  #!- graph-kept-by-logging
    #+ meter.update(loss.item())
print(float(meter.total) / meter.n)
