import torch
from torch import nn


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        n, t, c = x.shape
        h = self.fc(x).view(n, t, 2, 4).transpose(1, 2)
        h = h * 2
        h = h.transpose(2, 3)
        #+ return h.reshape(n, t, c)
        return h.view(n, t, c)  #!- view-after-transpose


net = Heads().eval()
with torch.no_grad():
    print(net(torch.ones(2, 3, 8)).shape)
