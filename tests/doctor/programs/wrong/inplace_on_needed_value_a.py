import torch

x = torch.ones(3, requires_grad=True)
y = torch.exp(x)
#+ y = y + 1
y += 1  #!- inplace-on-needed-value
y.sum().backward()
print(x.grad)
