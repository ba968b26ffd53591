import torch

data = torch.arange(12.0).view(3, 4)
#+ first = data[0].clone()
first = data[0]  #-
first.mul_(10)  #! write-through-view
print(data, first)
