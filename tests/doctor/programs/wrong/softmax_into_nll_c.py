import torch
import torch.nn as nn
class N(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 3)
        self.act = nn.Softmax(dim=-1)  #-
        #+ self.act = nn.LogSoftmax(dim=-1)
    def forward(self, x):
        return self.act(self.l(x))
torch.manual_seed(0)
n, c = N(), nn.NLLLoss()
o = torch.optim.SGD(n.parameters(), lr=0.1)
for _ in range(4):
    o.zero_grad()
    c(n(torch.randn(5, 4)), torch.randint(0, 3, (5,))).backward()  #! softmax-into-nll
    o.step()
