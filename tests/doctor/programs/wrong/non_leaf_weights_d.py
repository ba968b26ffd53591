import torch
import torch.nn as nn
torch.manual_seed(0)
w = (torch.randn(3, 1, requires_grad=True) * 0.1)  #-
#+ w = (torch.randn(3, 1) * 0.1).requires_grad_()
for _ in range(3):
    x = torch.randn(8, 3)
    loss = (x @ w - x[:, :1]).pow(2).mean()
    loss.backward(retain_graph=True)  #-
    #+ loss.backward()
    if w.grad is not None:  #! non-leaf-weights
        with torch.no_grad():
            w -= 0.1 * w.grad
            w.grad.zero_()
