import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Noise:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, x):
        return x + self.scale * np.random.normal()  #! workers-share-numpy-seed


class Data(Dataset):
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 8

    def __getitem__(self, i):
        return self.transform(torch.zeros(2))


def seed_worker(number):
    np.random.seed(torch.initial_seed() % 2**32)


if __name__ == "__main__":
    data = Data(Noise(0.1))
    #+ loader = DataLoader(data, batch_size=2, num_workers=2, worker_init_fn=seed_worker)
    loader = DataLoader(data, batch_size=2, num_workers=2)  #-
    print(len(loader))
