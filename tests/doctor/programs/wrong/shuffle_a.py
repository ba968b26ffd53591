import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(32, 3), torch.randn(32, 1))
#+ train_loader = DataLoader(data, batch_size=8, shuffle=True)
train_loader = DataLoader(data, batch_size=8)  #!- shuffle
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    for x, y in train_loader:
        opt.zero_grad()
        nn.functional.mse_loss(net(x), y).backward()
        opt.step()
