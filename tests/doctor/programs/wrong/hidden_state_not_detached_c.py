import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
cell, head = nn.LSTMCell(3, 6), nn.Linear(6, 1)
opt = torch.optim.Adam([*cell.parameters(), *head.parameters()])
h, c = torch.zeros(2, 6), torch.zeros(2, 6)
for chunk in range(5):
    #+ if chunk:
        #+ h, c = h.detach(), c.detach()
    loss = 0
    for t in range(4):
        x = torch.randn(2, 3)
        h, c = cell(x, (h, c))  #! hidden-state-not-detached
        loss = loss + F.mse_loss(head(h), x[:, :1])
    opt.zero_grad()
    loss.backward()
    opt.step()
