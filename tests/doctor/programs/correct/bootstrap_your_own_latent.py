import torch, torch.nn as nn, copy

torch.manual_seed(0)
# BYOL / mean teacher with target in train mode
online = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
pred = nn.Linear(4, 4)
target = copy.deepcopy(online)
o = torch.optim.SGD([*online.parameters(), *pred.parameters()], lr=0.05)
for _ in range(6):
    x = torch.randn(16, 4)
    a, b = x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)
    with torch.no_grad():
        t = target(b)
    l = 2 - 2 * nn.functional.cosine_similarity(pred(online(a)), t).mean()
    o.zero_grad()
    l.backward()
    o.step()
    with torch.no_grad():
        for p, q in zip(online.parameters(), target.parameters()):
            q.lerp_(p, 0.01)
