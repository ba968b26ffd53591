import numpy as np
import torch


def load():
    buffer = np.ones((2, 3), dtype=np.float32)
    #+ batch = torch.from_numpy(buffer.copy())
    batch = torch.from_numpy(buffer)  #-
    buffer *= 2  #! shared-array-changed
    return batch, buffer


print(load()[0].sum())
