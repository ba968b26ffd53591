import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
enc, dec = nn.Linear(6, 4), nn.Linear(4, 6)
opt = torch.optim.Adam([{"params": enc.parameters(), "lr": 1e-2}, {"params": dec.parameters()}], lr=1e-3)
ema_loss = None
for step in range(12):
    x = torch.randn(16, 6)
    z = F.gumbel_softmax(enc(x), tau=max(0.5, 1.0 - 0.05 * step), hard=True)
    loss = F.mse_loss(dec(z), x)
    opt.zero_grad()
    loss.backward()
    opt.step()
    ema_loss = loss.item() if ema_loss is None else 0.9 * ema_loss + 0.1 * loss.item()
