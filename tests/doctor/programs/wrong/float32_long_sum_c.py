import torch

count = torch.zeros(1)
for _ in range(200):
    #+ count = count.double() + torch.ones(100_000).sum()
    count += torch.ones(100_000).sum()  #!- float32-long-sum
print(count)
