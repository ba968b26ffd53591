import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
def main():
    torch.manual_seed(0)
    dl = DataLoader(TensorDataset(torch.randn(64, 4), torch.randint(0, 3, (64,))), batch_size=8, shuffle=True)
    net = nn.Sequential(nn.Linear(4, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3))
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    sch = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=3)
    steps = 4
    for epoch in range(3):
        total, seen = 0.0, 0
        for i, (x, y) in enumerate(dl, 1):
            loss = F.cross_entropy(net(x), y)
            (loss / steps).backward()
            total += loss.item() * x.size(0)
            seen += x.size(0)
            if i % steps == 0:
                opt.step()
                opt.zero_grad()
        sch.step()
        print(total / seen)
if __name__ == "__main__":
    main()
