import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
dl = DataLoader(TensorDataset(torch.randn(64, 4), torch.randint(0, 3, (64,))), batch_size=8, shuffle=True)
net = nn.Linear(4, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
class Cfg:
    grad_accum_steps = 4
opt.zero_grad()
for step, (x, y) in enumerate(dl):
    loss = F.cross_entropy(net(x), y)  #-
    #+ loss = F.cross_entropy(net(x), y) / Cfg.grad_accum_steps
    loss.backward()  #! undivided-accumulation
    if (step + 1) % Cfg.grad_accum_steps == 0:
        opt.step()
        opt.zero_grad()
