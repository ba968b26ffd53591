import torch
import torch.nn as nn
import torch.nn.functional as F
class Down(nn.Sequential):
    def __init__(self, i, o):
        super().__init__(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True))
class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.d1, self.d2 = Down(1, 4), Down(4, 8)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.out = nn.Conv2d(8, 1, 1)
    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        return self.out(torch.cat([a, self.up(b)], 1))
def dice(p, t, eps=1e-6):
    p = p.sigmoid()
    return 1 - (2 * (p * t).sum() + eps) / (p.sum() + t.sum() + eps)
torch.manual_seed(0)
m = UNet()
opt = torch.optim.Adam(m.parameters(), lr=1e-3)
for _ in range(6):
    x = torch.rand(4, 1, 8, 8)
    t = (x > 0.5).float()
    p = m(x)
    loss = F.binary_cross_entropy_with_logits(p, t) + dice(p, t)
    opt.zero_grad()
    loss.backward()
    opt.step()
m.eval()
with torch.no_grad():
    iou = ((m(x) > 0) & (t > 0)).sum() / ((m(x) > 0) | (t > 0)).sum()
