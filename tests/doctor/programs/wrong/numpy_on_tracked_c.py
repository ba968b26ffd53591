import torch
import torch.nn as nn
import numpy as np
torch.manual_seed(0)
net = nn.Linear(2, 1)
preds = []
for _ in range(3):
    preds.append(np.asarray(net(torch.randn(4, 2))))  #!- numpy-on-tracked
    #+ preds.append(np.asarray(net(torch.randn(4, 2)).detach()))
print(np.concatenate(preds).mean())
