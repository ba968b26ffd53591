import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        #+ self.register_buffer("mean", torch.zeros(3))
        self.mean = torch.zeros(3)  #!- unregistered-tensor

    def forward(self, x):
        return self.fc(x - self.mean)


net = Scaled().eval()
with torch.no_grad():
    print(net(torch.ones(2, 3)).shape)
