import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Points(Dataset):
    def __init__(self):
        generator = np.random.default_rng(0)
        self.x = generator.normal(size=(32, 4)).astype(np.float32)
        #+ self.y = generator.normal(size=32).astype(np.float32)
        self.y = generator.normal(size=32)  #-

    def __len__(self):
        return 32

    def __getitem__(self, i):
        return self.x[i], self.y[i]


torch.manual_seed(0)
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.MSELoss()
for x, y in DataLoader(Points(), batch_size=8, shuffle=True):
    opt.zero_grad()
    loss = criterion(model(x).squeeze(1), y)  #! float64-data
    loss.backward()
    opt.step()
