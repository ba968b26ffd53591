import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __iter__(self):
        generator = torch.Generator().manual_seed(0)
        for _ in range(32):
            x = torch.randn(3, generator=generator)
            yield x, x.sum().unsqueeze(0)


torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
running = 0.0
for x, y in DataLoader(Stream(), batch_size=8):
    opt.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    opt.step()
    running = 0.9 * running + 0.1 * loss.item()
print(running)
