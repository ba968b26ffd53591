import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def run(net, first, second):
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        net.train()
        for x, y in first:
            opt.zero_grad()
            nn.functional.mse_loss(net(x), y).backward()
            opt.step()
        net.eval()
        with torch.no_grad():
            print(sum(nn.functional.mse_loss(net(x), y, reduction="sum").item() for x, y in second))


torch.manual_seed(0)
data = TensorDataset(torch.randn(32, 3), torch.randn(32, 1))
loader = DataLoader(data, batch_size=8, shuffle=True)
#+ other = DataLoader(data, batch_size=8, shuffle=False)
other = DataLoader(data, batch_size=8, shuffle=True)  #!- shuffle
run(nn.Linear(3, 1), loader, other)
