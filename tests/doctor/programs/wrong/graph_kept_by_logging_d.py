import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
log = {"loss": []}
for i in range(12):
    x = torch.randn(8, 3)
    opt.zero_grad()
    loss = F.mse_loss(net(x), x[:, :1])
    loss.backward()
    opt.step()
    log["loss"].append(loss)  #!- graph-kept-by-logging
    #+ log["loss"].append(loss.detach())
print(torch.stack(log["loss"]).mean())
