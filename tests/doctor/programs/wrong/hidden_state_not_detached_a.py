import torch
from torch import nn

torch.manual_seed(0)
rnn, head = nn.GRU(3, 8, batch_first=True), nn.Linear(8, 1)
opt = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
h = torch.zeros(1, 4, 8)
for _ in range(4):
    #+ h = h.detach()
    out, h = rnn(torch.randn(4, 5, 3), h)  #! hidden-state-not-detached
    opt.zero_grad()
    head(out).pow(2).mean().backward()
    opt.step()
