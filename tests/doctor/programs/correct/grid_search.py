import torch
import torch.nn as nn
import torch.nn.functional as F
def run(lr, wd):
    torch.manual_seed(0)
    net = nn.Linear(3, 1)
    opt = torch.optim.SGD(net.parameters(), lr=lr, weight_decay=wd)
    for _ in range(10):
        x = torch.randn(16, 3)
        opt.zero_grad()
        loss = F.mse_loss(net(x), x @ torch.tensor([[1.0], [2.0], [3.0]]))
        loss.backward()
        opt.step()
    return loss.item()
results = {(lr, wd): run(lr, wd) for lr in (0.01, 0.1) for wd in (0.0, 1e-4)}
print(min(results, key=results.get))
