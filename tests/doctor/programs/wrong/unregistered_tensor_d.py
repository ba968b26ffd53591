import torch
import torch.nn as nn
class Attn(nn.Module):
    def __init__(self, T=6, d=4):
        super().__init__()
        self.q = nn.Linear(d, d)
        mask = torch.tril(torch.ones(T, T)).bool()
        self.mask = mask  #!- unregistered-tensor
        #+ self.register_buffer("mask", mask)
    def forward(self, x):
        s = self.q(x) @ x.transpose(1, 2)
        s = s.masked_fill(~self.mask, float("-inf"))
        return s.softmax(-1) @ x
m = Attn()
x = torch.randn(2, 6, 4)
print(m(x).sum())
