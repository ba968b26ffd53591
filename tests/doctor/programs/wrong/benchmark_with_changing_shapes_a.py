import torch
from torch import nn

torch.manual_seed(0)
#+ torch.backends.cudnn.benchmark = False
torch.backends.cudnn.benchmark = True  #!- benchmark-with-changing-shapes
net = nn.Conv2d(1, 2, 3).eval()
with torch.no_grad():
    for size in range(4, 12):
        net(torch.randn(2, 1, size, size))
torch.backends.cudnn.benchmark = False
