import torch

torch.manual_seed(0)
#+ w = (torch.randn(8, 2) * 0.1).requires_grad_()
w = torch.rand(8, 2, requires_grad=True)  #!- uniform-initial-weights
opt = torch.optim.SGD([w], lr=0.01)
for _ in range(3):
    opt.zero_grad()
    (torch.randn(4, 8) @ w).pow(2).mean().backward()
    opt.step()
