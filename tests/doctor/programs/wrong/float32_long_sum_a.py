import torch

x = torch.ones(1000) * 300.0
#+ total = 0.0
total = torch.tensor(0.0)  #-
for _ in range(128):
    #+ total += x.double().sum().item()
    total += x.sum()  #!- float32-long-sum
print(total)
