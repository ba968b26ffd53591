import torch, torch.nn as nn

torch.manual_seed(0)
# cosine per step with T_max = total steps; sequential warmup
m = nn.Linear(4, 2)
o = torch.optim.AdamW(m.parameters())
E, N = 3, 5
s = torch.optim.lr_scheduler.SequentialLR(
    o,
    [torch.optim.lr_scheduler.LinearLR(o, 0.1, 1.0, 3), torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=E * N - 3)],
    [3],
)
for e in range(E):
    for i in range(N):
        o.zero_grad()
        nn.functional.cross_entropy(m(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
        o.step()
        s.step()
