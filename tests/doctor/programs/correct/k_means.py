import torch
torch.manual_seed(0)
x = torch.cat([torch.randn(50, 2) + c for c in (-3.0, 0.0, 3.0)])
c = x[torch.randperm(150)[:3]].clone()
for _ in range(10):
    lab = torch.cdist(x, c).argmin(1)
    for k in range(3):
        if (lab == k).any():
            c[k] = x[lab == k].mean(0)
print(c)
