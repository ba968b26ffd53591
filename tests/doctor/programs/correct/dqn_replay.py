import torch
import torch.nn as nn
import torch.nn.functional as F
import random
from collections import deque
random.seed(0)
torch.manual_seed(0)
q = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
target = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
target.load_state_dict(q.state_dict())
opt = torch.optim.Adam(q.parameters(), lr=1e-3)
mem = deque(maxlen=200)
s = torch.zeros(3)
for t in range(60):
    with torch.no_grad():
        a = q(s).argmax().item() if random.random() > 0.2 else random.randrange(2)
    s2 = (s + torch.randn(3) * 0.1 + (a - 0.5)).clamp(-2, 2)
    mem.append((s, a, -s2.abs().sum().item(), s2))
    s = s2
    if len(mem) >= 16:
        bs, ba, br, bn = zip(*random.sample(list(mem), 16))
        with torch.no_grad():
            y = torch.tensor(br) + 0.9 * target(torch.stack(bn)).max(1).values
        qa = q(torch.stack(bs)).gather(1, torch.tensor(ba).unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(qa, y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(q.parameters(), 10)
        opt.step()
    if t % 20 == 0:
        target.load_state_dict(q.state_dict())
