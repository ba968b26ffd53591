import numpy as np
import torch
buf = np.zeros((8, 2), np.float32)
rows = []
for i in range(20):
    buf[i % 8] = i
    row = torch.from_numpy(buf).clone()
    rows.append(row.mean())
arr = [torch.from_numpy(np.full(3, k, np.float32)) for k in range(4)]
out = []
for k in range(4):
    a = np.ones(3, np.float32)
    a *= k
    out.append(torch.from_numpy(a))
print(torch.stack(rows), torch.stack(arr), torch.stack(out))
