import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 16, 3)).eval()
img = torch.randn(1, 1, 6, 6, requires_grad=True)
score = net(img)[0].max()
g, = torch.autograd.grad(score, img)
print(g.abs().max().item())
adv = (img + 0.01 * g.sign()).detach()
with torch.no_grad():
    print(F.softmax(net(adv), dim=1))
