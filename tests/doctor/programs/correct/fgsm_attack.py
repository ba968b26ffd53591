import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    opt.zero_grad()
    nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 3, (8,))).backward()
    opt.step()
model.eval()
for p in model.parameters():
    p.requires_grad_(False)
x = torch.randn(8, 4, requires_grad=True)
loss = nn.functional.cross_entropy(model(x), torch.randint(0, 3, (8,)))
loss.backward()
print((x + 0.1 * x.grad.sign()).detach().shape)
