import torch


class Base(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width


class Head(Base):
    def __init__(self, width):  #! missing-super-init
        #+ super().__init__(width)
        self.scale = torch.nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * self.scale


print(Head(3)(torch.ones(3)).shape)
