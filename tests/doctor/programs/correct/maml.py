import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
meta = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(3):
    meta.zero_grad()
    total = 0.0
    for _ in range(2):
        slope = torch.randn(1)
        x = torch.randn(8, 1)
        weights = dict(model.named_parameters())
        inner = nn.functional.mse_loss(torch.func.functional_call(model, weights, (x,)), slope * x)
        grads = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
        fast = {n: w - 0.1 * g for (n, w), g in zip(weights.items(), grads)}
        z = torch.randn(8, 1)
        total = total + nn.functional.mse_loss(torch.func.functional_call(model, fast, (z,)), slope * z)
    (total / 2).backward()
    meta.step()
