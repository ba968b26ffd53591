import torch
import torch.nn as nn
img = torch.rand(60, 60)
out = torch.zeros(60, 60)
for i in range(60):  #-
    for j in range(60):  #-
        if img[i, j] > 0.5:  #!- python-element-loop
            out[i, j] = 1  #!- python-element-loop
#+ out = (img > 0.5).float()
print(out.sum())
