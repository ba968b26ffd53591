import numpy as np
import torch

a = np.zeros(4, dtype=np.float32)
#+ x = torch.tensor(a)
x = torch.from_numpy(a)  #-
a[0] = 5.0  #! shared-array-changed
print(x.sum())
