import torch
from torch import nn


def update(net, opt, parts):
    opt.zero_grad()
    for x, y in parts:
        loss = nn.functional.cross_entropy(net(x), y)
        #+ (loss / len(parts)).backward()
        loss.backward()  #!- undivided-accumulation
    opt.step()


torch.manual_seed(0)
net = nn.Linear(3, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    update(net, opt, [(torch.randn(4, 3), torch.randint(0, 2, (4,))) for _ in range(3)])
