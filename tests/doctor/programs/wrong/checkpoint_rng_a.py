import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
block = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 1))
opt = torch.optim.SGD(block.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    #+ out = checkpoint(block, torch.randn(4, 3), use_reentrant=False)
    out = checkpoint(block, torch.randn(4, 3), use_reentrant=False, preserve_rng_state=False)  #!- checkpoint-rng
    out.pow(2).mean().backward()
    opt.step()
