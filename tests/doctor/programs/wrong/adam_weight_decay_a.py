import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
decay = 1e-4
#+ opt = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=decay)
opt = torch.optim.Adam(net.parameters(), lr=1e-3, weight_decay=decay)  #!- adam-weight-decay
for _ in range(3):
    opt.zero_grad()
    net(torch.randn(4, 3)).pow(2).mean().backward()
    opt.step()
