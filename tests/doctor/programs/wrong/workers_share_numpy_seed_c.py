import torch
import torch.nn as nn
import random
import numpy as np
from torch.utils.data import DataLoader, Dataset
def jitter(x):
    return x * np.random.uniform(0.9, 1.1)  #! workers-share-numpy-seed
class D(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, i):
        return jitter(torch.ones(2) * i)
#+ def init(w):
    #+ np.random.seed(torch.initial_seed() % 2**32)
if __name__ == "__main__":
    loader = DataLoader(D(), batch_size=4, num_workers=2)  #-
    #+ loader = DataLoader(D(), batch_size=4, num_workers=2, worker_init_fn=init)
    for b in loader:
        print(b.shape)
