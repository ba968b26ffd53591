import torch

torch.manual_seed(0)
x = torch.randn(3000)
#+ total = x.sum()
total = 0.0  #-
for i in range(len(x)):  #-
    total = total + x[i]  #!- python-element-loop
print(total)
