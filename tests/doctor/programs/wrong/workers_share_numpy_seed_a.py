import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Augmented(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return self.jitter(torch.zeros(2))

    def jitter(self, x):
        #+ return x + torch.rand(1)
        return x + np.random.rand()  #!- workers-share-numpy-seed


def main():
    loader = DataLoader(Augmented(), batch_size=2, num_workers=2)
    print(len(loader))


if __name__ == "__main__":
    main()
