import torch
from torch.utils.data import TensorDataset, random_split

torch.manual_seed(0)
data = TensorDataset(torch.randn(20, 3))
#+ train, val = random_split(data, [16, 4], generator=torch.Generator().manual_seed(0))
train, val = random_split(data, [16, 4])  #!- shared-transform
print(len(train), len(val))
