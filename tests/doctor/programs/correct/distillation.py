import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
teacher = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3)).eval()
student = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 3))
opt = torch.optim.AdamW(student.parameters(), lr=1e-3)
T = 3.0
for _ in range(8):
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    with torch.no_grad():
        t = teacher(x)
    s = student(x)
    kd = F.kl_div(F.log_softmax(s / T, 1), F.softmax(t / T, 1), reduction="batchmean") * T * T
    loss = 0.5 * kd + 0.5 * F.cross_entropy(s, y)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
