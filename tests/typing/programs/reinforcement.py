"""Policy gradients with a replay memory, on a toy problem."""

import random
from collections import deque
from typing import NamedTuple

import flambeau as torch
import flambeau.nn as nn
import flambeau.optim as optim
from flambeau.distributions import Categorical


class Transition(NamedTuple):
    state: torch.Tensor
    action: torch.Tensor
    reward: float
    next_state: torch.Tensor


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 16), nn.Tanh())
        self.actor = nn.Linear(16, 2)
        self.critic = nn.Linear(16, 1)

    def forward(self, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.body(state)
        return torch.log_softmax(self.actor(hidden), dim=-1), self.critic(hidden).squeeze(-1)


memory: deque[Transition] = deque(maxlen=100)
policy, target = Policy(), Policy()
target.load_state_dict(policy.state_dict())
optimizer = optim.RMSprop(policy.parameters(), lr=0.01)
gamma = 0.9
for _ in range(3):
    state = torch.zeros(2)
    log_probabilities: list[torch.Tensor] = []
    rewards: list[float] = []
    distribution = Categorical(logits=policy(state)[0])
    for step in range(5):
        logits, value = policy(state)
        distribution = Categorical(logits=logits)
        action = distribution.sample()
        log_probabilities.append(distribution.log_prob(action))
        reward = 1.0 if action.item() == step % 2 else -1.0
        following = torch.tensor([float(action), reward])
        memory.append(Transition(state, action, reward, following))
        rewards.append(reward)
        state = following
    returns: list[float] = []
    total = 0.0
    for reward in reversed(rewards):
        total = reward + gamma * total
        returns.insert(0, total)
    goal = torch.tensor(returns)
    goal = (goal - goal.mean()) / (goal.std() + torch.finfo(torch.float32).eps)
    loss = -(torch.stack(log_probabilities) * goal).sum() - 0.01 * distribution.entropy()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    batch = Transition(*zip(*random.sample(list(memory), 4)))  # type: ignore[arg-type]
    states = torch.stack(list(batch.state))
    with torch.no_grad():
        for p, q in zip(policy.parameters(), target.parameters()):
            q.mul_(0.95).add_(p, alpha=0.05)
        best = target(states)[0].max(dim=1).values
    print(loss.item(), best.mean().item())
