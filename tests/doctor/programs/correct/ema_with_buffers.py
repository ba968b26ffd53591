import torch
import torch.nn as nn
import torch.nn.functional as F
import copy
torch.manual_seed(0)
student = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
ema = copy.deepcopy(student).requires_grad_(False).eval()
opt = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
for _ in range(10):
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    opt.zero_grad(set_to_none=True)
    loss = F.cross_entropy(student(x), y, label_smoothing=0.1)
    loss.backward()
    opt.step()
    with torch.no_grad():
        for a, b in zip(ema.parameters(), student.parameters()):
            a.mul_(0.99).add_(b, alpha=0.01)
        for a, b in zip(ema.buffers(), student.buffers()):
            a.copy_(b)
