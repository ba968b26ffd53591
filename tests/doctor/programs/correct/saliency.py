import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
for _ in range(3):
    x = torch.randn(1, 5, requires_grad=True)
    score = model(x)[0, 1]
    (grad,) = torch.autograd.grad(score, x)
    print(grad.abs().max().item())
