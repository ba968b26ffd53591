import torch
import torch.nn as nn
import torch.nn.functional as F
class Focal(nn.Module):
    def __init__(self, gamma=2.0):
        super().__init__()
        self.gamma = gamma
    def forward(self, logits, y):
        ce = F.cross_entropy(logits, y, reduction="none")
        p = torch.exp(-ce)
        return ((1 - p) ** self.gamma * ce).mean()
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.Linear(8, 3))
crit = Focal()
opt = torch.optim.NAdam(net.parameters(), lr=1e-3)
hist = []
for e in range(10):
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    opt.zero_grad()
    loss = crit(net(x), y)
    loss.backward()
    opt.step()
    hist.append(loss.item())
conf = torch.zeros(3, 3, dtype=torch.long)
with torch.no_grad():
    for t, p in zip(y.tolist(), net(x).argmax(1).tolist()):
        conf[t, p] += 1
print(sum(hist) / len(hist), conf)
