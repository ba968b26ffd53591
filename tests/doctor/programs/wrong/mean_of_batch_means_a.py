import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(20, 3), torch.randn(20, 1)), batch_size=8)
net = nn.Linear(3, 1).eval()
criterion = nn.MSELoss()
total = 0.0
with torch.no_grad():
    for x, y in loader:
        #+ total += criterion(net(x), y).item() * len(x)
        total += criterion(net(x), y).item()  #-
#+ print(total / len(loader.dataset))
print(total / len(loader))  #!- mean-of-batch-means
