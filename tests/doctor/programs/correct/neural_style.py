import torch
from torch import nn

torch.manual_seed(0)
features = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1))
features.eval().requires_grad_(False)
content = torch.rand(1, 3, 8, 8)
goal = features(content)
image = torch.rand(1, 3, 8, 8, requires_grad=True)
opt = torch.optim.Adam([image], lr=0.05)
for _ in range(6):
    opt.zero_grad()
    loss = nn.functional.mse_loss(features(image), goal)
    loss.backward()
    opt.step()
    with torch.no_grad():
        image.clamp_(0, 1)
