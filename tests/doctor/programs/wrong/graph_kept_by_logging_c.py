import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def evaluate(model, loader, criterion):
    model.eval()
    total = 0
    for x, y in loader:
        #+ with torch.no_grad():
        #+     total += criterion(model(x), y).item() * len(x)
        output = model(x)  #-
        total += criterion(output, y)  #!- graph-kept-by-logging
    print(float(total))


torch.manual_seed(0)
data = TensorDataset(torch.randn(16, 3), torch.randn(16, 1))
evaluate(nn.Linear(3, 1), DataLoader(data, batch_size=4), nn.MSELoss())
