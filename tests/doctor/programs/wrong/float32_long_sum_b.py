import torch

pixels = torch.full((500_000,), 0.7)
total = torch.zeros(())
count = 0
for _ in range(80):
    #+ total = total.double() + pixels.sum(dtype=torch.float64)
    total = total + pixels.sum()  #!- float32-long-sum
    count += pixels.numel()
print(total / count)
