import torch
import torch.nn as nn
import torch.nn.functional as F
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Parameter(torch.zeros(4, 8))  #!- constant-initial-weights
        #+ self.w1 = nn.Parameter(torch.randn(4, 8) * 0.3)
        self.w2 = nn.Parameter(torch.zeros(8, 2))  #-
        #+ self.w2 = nn.Parameter(torch.randn(8, 2) * 0.3)
    def forward(self, x):
        return torch.tanh(x @ self.w1) @ self.w2
torch.manual_seed(0)
n = Net()
o = torch.optim.SGD(n.parameters(), lr=0.1)
for _ in range(4):
    o.zero_grad()
    F.cross_entropy(n(torch.randn(5, 4)), torch.randint(0, 2, (5,))).backward()
    o.step()
