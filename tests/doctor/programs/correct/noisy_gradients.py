import torch, torch.nn as nn

torch.manual_seed(0)
# bias-free embedding bag, cyclic lr per step, gradient noise
m = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
o = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
s = torch.optim.lr_scheduler.CyclicLR(o, 1e-3, 1e-1, step_size_up=5)
for i in range(20):
    o.zero_grad()
    l = nn.functional.cross_entropy(m(torch.randn(8, 4)), torch.randint(0, 2, (8,)))
    l.backward()
    for p in m.parameters():
        p.grad += 0.01 * torch.randn_like(p.grad)
    o.step()
    s.step()
