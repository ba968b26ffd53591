import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
def run_epoch(model, loader, opt=None):
    total = 0.0
    #+ if opt is None:
        #+ model.eval()
    #+ else:
        #+ model.train()
    for x, y in loader:
        with torch.set_grad_enabled(opt is not None):
            loss = F.cross_entropy(model(x), y)  #! missing-eval
        if opt is not None:
            opt.zero_grad()
            loss.backward()
            opt.step()
        total += loss.item() * len(x)
    return total
torch.manual_seed(0)
tr = DataLoader(TensorDataset(torch.randn(48, 4), torch.randint(0, 2, (48,))), 16, shuffle=True)
va = DataLoader(TensorDataset(torch.randn(32, 4), torch.randint(0, 2, (32,))), 16)
m = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 2))
o = torch.optim.Adam(m.parameters())
for e in range(3):
    print(run_epoch(m, tr, o), run_epoch(m, va))
