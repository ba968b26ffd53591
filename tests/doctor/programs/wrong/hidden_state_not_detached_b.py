import torch
from torch import nn


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.ih, self.hh = nn.Linear(3, 6), nn.Linear(6, 6)
        self.out = nn.Linear(6, 1)

    def forward(self, x, h):
        h = torch.tanh(self.ih(x) + self.hh(h))
        return self.out(h), h


torch.manual_seed(0)
cell = Cell()
opt = torch.optim.SGD(cell.parameters(), lr=1e-3)
state = torch.zeros(4, 6)
for _ in range(8):
    #+ state = state.detach()
    y, state = cell(torch.randn(4, 3), state)  #! hidden-state-not-detached
    loss = y.pow(2).mean()
    #+ loss.backward()
    loss.backward(retain_graph=True)  #-
    #+ opt.step()
    opt.zero_grad()
