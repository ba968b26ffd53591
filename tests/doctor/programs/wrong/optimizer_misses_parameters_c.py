import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
enc, cls = nn.Linear(4, 6), nn.Linear(6, 2)
log_temp = nn.Parameter(torch.zeros(()))
opt = torch.optim.AdamW(list(enc.parameters()) + list(cls.parameters()), lr=1e-3)  #!- optimizer-misses-parameters
#+ opt = torch.optim.AdamW([*enc.parameters(), *cls.parameters(), log_temp], lr=1e-3)
for _ in range(5):
    x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))
    loss = F.cross_entropy(cls(enc(x).tanh()) * log_temp.exp(), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
