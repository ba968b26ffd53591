import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
net = nn.Linear(3, 1)
lam = nn.Parameter(torch.tensor(1.0))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(10):
    x = torch.randn(16, 3)
    out = net(x)
    loss = F.mse_loss(out, x[:, :1]) + lam * F.relu(out.mean() - 0.1)
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        lam += 0.1 * (out.mean() - 0.1)
        lam.clamp_(min=0.0)
    lam.grad = None
