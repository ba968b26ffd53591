import torch
from torch import nn


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.actor = nn.Linear(8, 2)
        self.critic = nn.Linear(8, 1)

    def forward(self, x):
        h = torch.tanh(self.body(x))
        return self.actor(h), self.critic(h)


torch.manual_seed(0)
net = ActorCritic()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(6):
    x = torch.randn(16, 4)
    logits, value = net(x)
    dist = torch.distributions.Categorical(logits=logits)
    action = dist.sample()
    reward = (action == (x[:, 0] > 0)).float()
    advantage = reward - value.squeeze(-1)
    loss = -(dist.log_prob(action) * advantage.detach()).mean() + advantage.pow(2).mean() - 0.01 * dist.entropy().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
