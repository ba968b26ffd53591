import torch

x = torch.arange(6).reshape(2, 3)
y = x.t()
#+ print(y.reshape(6))
print(y.view(6))  #!- view-after-transpose
