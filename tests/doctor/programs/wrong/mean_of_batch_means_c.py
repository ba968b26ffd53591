import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
net = nn.Linear(3, 2)
dl = DataLoader(TensorDataset(torch.randn(50, 3), torch.randint(0, 2, (50,))), batch_size=16)
def test(model, loader):
    model.eval()
    accs = []
    with torch.no_grad():
        for xb, yb in loader:
            accs.append((model(xb).argmax(1) == yb).float().mean().item())  #-
            #+ accs.extend((model(xb).argmax(1) == yb).float().tolist())
    return sum(accs) / len(accs)  #! mean-of-batch-means
print(test(net, dl))
