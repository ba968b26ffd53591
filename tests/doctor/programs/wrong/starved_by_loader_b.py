import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Parsed(Dataset):
    def __init__(self):
        self.lines = [",".join(str((i * j) % 7) for j in range(2000)) for i in range(48)]

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, i):
        #+ return torch.full((3,), float(i)), torch.ones(1)
        for _ in range(12):  #-
            numbers = [float(text) for text in self.lines[i].split(",")]  #-
        return torch.tensor(numbers[:3]), torch.ones(1)  #-


def main():
    torch.manual_seed(0)
    net = nn.Linear(3, 1)
    opt = torch.optim.SGD(net.parameters(), lr=1e-4)
    loader = DataLoader(Parsed(), batch_size=8, shuffle=True)  #! starved-by-loader
    for _ in range(3):
        for x, y in loader:
            opt.zero_grad()
            nn.functional.mse_loss(net(x), y).backward()
            opt.step()


main()
