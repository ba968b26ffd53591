# nothing else
import torch
import torch.nn as nn
torch.manual_seed(0)
def batch():
    x = torch.randn(16, 2)
    y = (x.sum(1, keepdim=True) > 0).long()  #-
    #+ y = (x.sum(1, keepdim=True) > 0).float()
    return x, y
model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
bce = nn.BCEWithLogitsLoss()
for _ in range(5):
    x, y = batch()
    loss = bce(model(x), y)  #! integer-bce-targets
    opt.zero_grad()
    loss.backward()
    opt.step()
