import torch
import torch.nn as nn
import torch.nn.functional as F
def evaluate(m, x):
    m.eval()
    with torch.no_grad():
        r = m(x).mean().item()
    #+ m.train()
    return r
torch.manual_seed(0)
m = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 1))
opt = torch.optim.SGD(m.parameters(), lr=0.01)
for step in range(20):
    x = torch.randn(8, 4)
    opt.zero_grad()
    loss = F.mse_loss(m(x), x[:, :1])  #! missing-train
    loss.backward()
    opt.step()
    if step % 5 == 0:
        evaluate(m, x)
