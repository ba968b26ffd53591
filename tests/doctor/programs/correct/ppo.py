import torch
from torch import nn
from torch.distributions import Normal

torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
critic = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
log_std = nn.Parameter(torch.zeros(1))
opt = torch.optim.Adam([*actor.parameters(), *critic.parameters(), log_std], lr=3e-3)
for _ in range(3):
    with torch.no_grad():
        states = torch.randn(32, 3)
        dist = Normal(actor(states), log_std.exp())
        actions = dist.sample()
        old = dist.log_prob(actions)
        rewards = -(actions - states.sum(1, keepdim=True)).abs()
        advantage = rewards - critic(states)
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    for _ in range(3):
        dist = Normal(actor(states), log_std.exp())
        ratio = (dist.log_prob(actions) - old).exp()
        surrogate = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        loss = -surrogate.mean() + 0.5 * nn.functional.mse_loss(critic(states), rewards) - 0.01 * dist.entropy().mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_([*actor.parameters(), *critic.parameters()], 0.5)
        opt.step()
