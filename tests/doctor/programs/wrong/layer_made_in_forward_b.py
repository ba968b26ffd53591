import torch
from torch import nn


class Skip(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, 2 * channels, 3, padding=1)
        #+ self.match = nn.Conv2d(channels, 2 * channels, 1)

    def shortcut(self, x):
        #+ return self.match(x)
        layer = nn.Conv2d(x.shape[1], 2 * x.shape[1], 1)  #!- layer-made-in-forward
        return layer(x)  #-

    def forward(self, x):
        return self.conv(x) + self.shortcut(x)


net = Skip(2).eval()
with torch.no_grad():
    print(net(torch.ones(1, 2, 4, 4)).shape)
