import numpy as np
import torch
buf = np.zeros((4, 3), dtype=np.float32)
frames = []
for t in range(5):
    buf[:] = t  #!- shared-array-changed
    frames.append(torch.from_numpy(buf))  #-
    #+ buf[:] = t
    #+ frames.append(torch.from_numpy(buf.copy()))
print(torch.stack(frames).mean(dim=(1, 2)))
