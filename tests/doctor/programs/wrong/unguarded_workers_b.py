import torch
from torch.utils.data import DataLoader, TensorDataset

WORKERS = 2
data = TensorDataset(torch.zeros(4, 2))
#+ loader = DataLoader(data, batch_size=2)
loader = DataLoader(data, batch_size=2, num_workers=WORKERS)  #!- unguarded-workers
print(len(loader))
