import numpy as np
import torch

w = torch.ones(3, requires_grad=True)
#+ values = np.asarray(w.detach())
values = np.asarray(w)  #!- numpy-on-tracked
print(values)
