# nothing else
import torch
import torch.nn as nn
torch.manual_seed(0)
enc = nn.Linear(4, 3)
h1, h2 = nn.Linear(3, 1), nn.Linear(3, 1)
opt = torch.optim.SGD([*enc.parameters(), *h1.parameters(), *h2.parameters()], lr=0.1)
for i in range(3):
    x = torch.randn(8, 4)
    z = enc(x).tanh()
    la = h1(z).pow(2).mean()
    lb = (h2(z) - 1).pow(2).mean()
    opt.zero_grad()
    la.backward()  #-
    lb.backward()  #!- backward-twice
    #+ (la + lb).backward()
    opt.step()
