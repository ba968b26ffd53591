import torch

torch.manual_seed(0)
#+ w = (torch.randn(3) * 0.1).requires_grad_()
w = torch.randn(3, requires_grad=True) * 0.1  #-
loss = (torch.randn(8, 3) @ w).pow(2).mean()
loss.backward()
print(w.grad)  #! non-leaf-weights
