import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import Dataset, DataLoader
class Table(Dataset):
    def __init__(self, n=40):
        r = np.random.default_rng(0)
        self.x, self.y = r.normal(size=(n, 3)), r.normal(size=(n, 1))
    def __len__(self):
        return len(self.x)
    def __getitem__(self, i):
        return torch.tensor(self.x[i]), torch.tensor(self.y[i])  #-
        #+ return torch.tensor(self.x[i], dtype=torch.float32), torch.tensor(self.y[i], dtype=torch.float32)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in DataLoader(Table(), batch_size=10, shuffle=True):
    loss = F.mse_loss(net(x), y)  #! float64-data
    opt.zero_grad()
    loss.backward()
    opt.step()
