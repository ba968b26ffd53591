import torch
from torch import nn
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 16)
        self.out = nn.Linear(16, 2)

    def forward(self, x):
        return torch.softmax(self.out(torch.relu(self.fc(x))), dim=-1)


torch.manual_seed(0)
policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
for _ in range(4):
    log_probs, rewards = [], []
    state = torch.randn(4)
    for _ in range(6):
        m = Categorical(policy(state))
        action = m.sample()
        log_probs.append(m.log_prob(action))
        rewards.append(float(action.item() == (state[0] > 0).item()))
        state = torch.randn(4)
    returns, R = [], 0.0
    for r in reversed(rewards):
        R = r + 0.9 * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    losses = [-lp * r for lp, r in zip(log_probs, returns)]
    optimizer.zero_grad()
    loss = torch.stack(losses).sum()
    loss.backward()
    optimizer.step()
