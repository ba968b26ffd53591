import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Linear(8, 2)
model = nn.Sequential(body, head)
for p in body.parameters():
    p.requires_grad = False
opt = torch.optim.Adam(head.parameters(), lr=1e-2)
for phase in range(2):
    for _ in range(4):
        opt.zero_grad()
        nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
        opt.step()
    if phase == 0:
        for p in body.parameters():
            p.requires_grad = True
        opt.add_param_group({"params": list(body.parameters()), "lr": 1e-4})
