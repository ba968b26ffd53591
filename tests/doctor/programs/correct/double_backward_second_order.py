import torch

torch.manual_seed(0)
x = torch.randn(4, requires_grad=True)
y = (x**3).sum()
(g,) = torch.autograd.grad(y, x, create_graph=True)
penalty = (g**2).sum()
penalty.backward()
print(x.grad)
