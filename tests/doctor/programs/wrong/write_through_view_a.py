import torch
from torch.utils.data import Dataset


class Noisy(Dataset):
    def __init__(self):
        self.data = torch.zeros(10, 3)

    def __len__(self):
        return 10

    def __getitem__(self, i):
        #+ sample = self.data[i].clone()
        sample = self.data[i]  #-
        sample += 1.0  #! write-through-view
        return sample


noisy = Noisy()
print(noisy[0], noisy[0])
