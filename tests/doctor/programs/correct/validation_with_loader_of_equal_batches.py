import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(32, 3), torch.randn(32, 1))
train_loader = DataLoader(data, batch_size=8, shuffle=True, drop_last=True)
val_loader = DataLoader(data, batch_size=8)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
criterion = nn.MSELoss()
for _ in range(2):
    net.train()
    running = 0.0
    for x, y in train_loader:
        opt.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        opt.step()
        running += loss.item()
    net.eval()
    val = 0.0
    with torch.no_grad():
        for x, y in val_loader:
            val += criterion(net(x), y).item()
    print(running / len(train_loader), val / len(val_loader))
