import torch
import torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.seq = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid())  #-
        #+ self.seq = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    def forward(self, x):
        return self.seq(x).squeeze(-1)
torch.manual_seed(0)
n = Net()
crit = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.0))
o = torch.optim.Adam(n.parameters())
for _ in range(4):
    x = torch.randn(6, 4)
    o.zero_grad()
    crit(n(x), (x[:, 0] > 0).float()).backward()  #! sigmoid-before-logits-loss
    o.step()
