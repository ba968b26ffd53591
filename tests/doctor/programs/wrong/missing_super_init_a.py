import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):  #! missing-super-init
        #+ super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x)


net = Net().eval()
with torch.no_grad():
    print(net(torch.ones(1, 4)).shape)
