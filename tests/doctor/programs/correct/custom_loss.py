import torch
from torch import nn


class FocalLoss(nn.Module):
    def __init__(self, gamma=2.0):
        super().__init__()
        self.gamma = gamma

    def forward(self, logits, target):
        log_p = torch.log_softmax(logits, dim=-1)
        picked = log_p.gather(1, target.unsqueeze(1)).squeeze(1)
        return (-((1 - picked.exp()) ** self.gamma) * picked).mean()


class Dice(nn.Module):
    def forward(self, logits, target):
        p = torch.sigmoid(logits)
        return 1 - (2 * (p * target).sum() + 1) / (p.sum() + target.sum() + 1)


torch.manual_seed(0)
net = nn.Linear(4, 3)
mask = nn.Linear(4, 4)
opt = torch.optim.SGD([*net.parameters(), *mask.parameters()], lr=0.1)
focal, dice = FocalLoss(), Dice()
for _ in range(4):
    x = torch.randn(8, 4)
    loss = focal(net(x), torch.randint(0, 3, (8,))) + dice(mask(x), (x > 0).float())
    opt.zero_grad()
    loss.backward()
    opt.step()
