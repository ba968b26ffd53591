import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 4)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(self.fc(x))


def main():
    torch.manual_seed(0)
    net = Net()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    #+ train_loader = DataLoader(TensorDataset(torch.randn(9, 2)), batch_size=4, shuffle=True, drop_last=True)
    train_loader = DataLoader(TensorDataset(torch.randn(9, 2)), batch_size=4, shuffle=True)  #!- batch-of-one
    for epoch in range(2):
        for (x,) in train_loader:
            opt.zero_grad()
            net(x).pow(2).mean().backward()
            opt.step()


main()
