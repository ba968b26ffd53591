import torch
import torch.nn as nn
torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
for i in range(10):
    x = torch.randn(8, 3)
    loss = (x @ w - x.sum(1)).pow(2).mean()
    loss.backward()  #! missing-zero-grad
    with torch.no_grad():
        w -= 0.05 * w.grad
        #+ w.grad = None
