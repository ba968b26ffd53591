import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
teacher = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
teacher.eval()
for p in teacher.parameters():
    p.requires_grad_(False)
student = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))
opt = torch.optim.SGD(student.parameters(), lr=0.1)
T = 2.0
for _ in range(6):
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    goal = teacher(x)
    out = student(x)
    soft = F.kl_div(F.log_softmax(out / T, 1), F.softmax(goal / T, 1), reduction="batchmean") * T * T
    loss = 0.5 * soft + 0.5 * F.cross_entropy(out, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
