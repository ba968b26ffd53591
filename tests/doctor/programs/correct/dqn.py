import copy
import random

import torch
from torch import nn

random.seed(0)
torch.manual_seed(0)
q = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
target = copy.deepcopy(q).eval()
opt = torch.optim.AdamW(q.parameters(), lr=1e-3)
memory = []
state = torch.randn(3)
for step in range(40):
    if random.random() < 0.2:
        action = random.randrange(2)
    else:
        with torch.no_grad():
            action = q(state).argmax().item()
    following = torch.randn(3)
    memory.append((state, action, float(action), following))
    state = following
    if len(memory) >= 16:
        batch = random.sample(memory, 8)
        s, a, r, n = zip(*batch)
        value = q(torch.stack(s)).gather(1, torch.tensor(a).unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            goal = torch.tensor(r) + 0.9 * target(torch.stack(n)).max(1).values
        loss = nn.functional.smooth_l1_loss(value, goal)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(q.parameters(), 100)
        opt.step()
    if step % 10 == 0:
        target.load_state_dict(q.state_dict())
