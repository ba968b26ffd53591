"""A small classifier, trained with a scheduler and evaluated."""

import math

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim
from flambeau.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, hidden: int = 32, classes: int = 3) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, hidden), nn.ReLU(), nn.Dropout(0.1), nn.Linear(hidden, classes))
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x - self.mean) * self.scale


def make_data(n: int, generator: torch.Generator) -> TensorDataset:
    x = torch.randn(n, 4, generator=generator)
    y = (x[:, 0] + x[:, 1] > 0).long() + (x[:, 2] > 1).long()
    return TensorDataset(x, y)


def train_one_epoch(net: nn.Module, loader: DataLoader, optimizer: optim.Optimizer, device: torch.device) -> float:
    net.train()
    total, count = 0.0, 0
    for x, y in loader:
        x, y = x.to(device), y.to(device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(net(x), y, label_smoothing=0.1)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), max_norm=1.0)
        optimizer.step()
        total += loss.item() * x.size(0)
        count += x.shape[0]
    return total / count


@torch.no_grad()
def accuracy(net: nn.Module, loader: DataLoader, device: torch.device) -> float:
    net.eval()
    right = 0
    for x, y in loader:
        right += int((net(x.to(device)).argmax(dim=1) == y.to(device)).sum().item())
    return right / len(loader.dataset)


def main() -> None:
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(make_data(64, torch.Generator().manual_seed(1)), batch_size=16, shuffle=True)
    net = Net().to(device)
    optimizer = optim.AdamW(net.parameters(), lr=1e-2, weight_decay=0.01)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3)
    best = math.inf
    for epoch in range(3):
        loss = train_one_epoch(net, loader, optimizer, device)
        scheduler.step()
        best = min(best, loss)
        right = accuracy(net, loader, device)
        print(f"{epoch}: loss {loss:.3f}, lr {scheduler.get_last_lr()[0]:.4f}, accuracy {right:.2f}")
    parameters = sum(p.numel() for p in net.parameters() if p.requires_grad)
    print(parameters, best)


if __name__ == "__main__":
    main()
