import torch
from torch.utils.data import Dataset, Subset


class Images(Dataset):
    def __init__(self, augment):
        self.data = torch.zeros(20, 3)
        self.augment = augment

    def __len__(self):
        return 20

    def __getitem__(self, i):
        x = self.data[i].clone()
        if self.augment:
            x = x + 0.1 * torch.randn(3)
        return x


torch.manual_seed(0)
order = torch.randperm(20).tolist()
full = Images(augment=True)
train_set = Subset(full, order[:16])
#+ val_set = Subset(Images(augment=False), order[16:])
val_set = Subset(full, order[16:])  #!- shared-transform
print(len(train_set), len(val_set))
