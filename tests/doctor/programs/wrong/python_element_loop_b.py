import torch

torch.manual_seed(0)
image = torch.rand(40, 40)
out = torch.zeros(40, 40)
#+ out = torch.where(image > 0.5, 1.0, 0.0)
for i in range(40):  #-
    for j in range(40):  #-
        if image[i, j].item() > 0.5:  #!- python-element-loop
            out[i, j] = 1.0  #-
print(out.sum())
