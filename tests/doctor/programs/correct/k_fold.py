import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset


def train_fold(train_loader, val_loader):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 2))
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(2):
        model.train()
        for x, y in train_loader:
            opt.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            opt.step()
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in val_loader:
            correct += (model(x).argmax(1) == y).sum().item()
    return correct / len(val_loader.dataset)


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(40, 4), torch.randint(0, 2, (40,)))
    folds = torch.randperm(40, generator=torch.Generator().manual_seed(1)).chunk(4)
    scores = []
    for k in range(4):
        rest = torch.cat([f for i, f in enumerate(folds) if i != k])
        train_loader = DataLoader(Subset(data, rest.tolist()), batch_size=10, shuffle=True)
        val_loader = DataLoader(Subset(data, folds[k].tolist()), batch_size=10)
        scores.append(train_fold(train_loader, val_loader))
    print(sum(scores) / len(scores))


if __name__ == "__main__":
    main()
