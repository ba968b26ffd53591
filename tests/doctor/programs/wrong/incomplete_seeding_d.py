import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
np.random.seed(0)
#+ torch.manual_seed(0)
X = np.random.randn(32, 3).astype("float32")
net = nn.Linear(3, 1)  #! incomplete-seeding
for (x,) in DataLoader(TensorDataset(torch.from_numpy(X)), batch_size=8, shuffle=True):
    print(net(x).mean().item())
