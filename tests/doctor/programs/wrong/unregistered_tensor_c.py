import math

import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        #+ self.register_buffer("table", self.make(length, width))
        self.table = self.make(length, width)  #!- unregistered-tensor

    @staticmethod
    def make(length, width):
        t = torch.arange(length).unsqueeze(1) * torch.exp(torch.arange(0, width, 2) * (-math.log(1e4) / width))
        return torch.cat([t.sin(), t.cos()], dim=1)

    def forward(self, x):
        return x + self.table[: x.size(1)]


print(Positions(8, 4)(torch.zeros(2, 5, 4)).shape)
