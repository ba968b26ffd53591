import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(17, 3), torch.randn(17, 1))
#+ loader = DataLoader(data, batch_size=8, shuffle=True, drop_last=True)
loader = DataLoader(data, batch_size=8, shuffle=True)  #!- batch-of-one
net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    opt.zero_grad()
    nn.functional.mse_loss(net(x), y).backward()
    opt.step()
