import copy

import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

torch.manual_seed(0)
x, y = torch.randn(40, 4), torch.randint(0, 2, (40,))
xv, yv = torch.randn(16, 4), torch.randint(0, 2, (16,))
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
plateau = ReduceLROnPlateau(opt, patience=1)
best, best_state, bad = float("inf"), None, 0
for _ in range(10):
    model.train()
    opt.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    opt.step()
    model.eval()
    with torch.no_grad():
        val = nn.functional.cross_entropy(model(xv), yv).item()
    plateau.step(val)
    if val < best:
        best, best_state, bad = val, copy.deepcopy(model.state_dict()), 0
    else:
        bad += 1
        if bad > 2:
            break
model.load_state_dict(best_state)
