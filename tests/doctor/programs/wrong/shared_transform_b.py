import torch
from torch.utils.data import Dataset, random_split


class Images(Dataset):
    def __init__(self, transform=None):
        self.data = torch.zeros(20, 3, 4, 4)
        self.transform = transform

    def __len__(self):
        return 20

    def __getitem__(self, i):
        x = self.data[i]
        return x if self.transform is None else self.transform(x)


def flip(x):
    return x.flip(-1) if torch.rand(1) < 0.5 else x


torch.manual_seed(0)
#+ dataset = Images()
dataset = Images(transform=flip)  #-
train, val = random_split(dataset, [16, 4], generator=torch.Generator().manual_seed(0))  #! shared-transform
print(len(train), len(val))
