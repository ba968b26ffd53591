import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
#+ criterion = nn.MSELoss()
criterion = nn.MSELoss(reduction="none")  #-
for _ in range(3):
    opt.zero_grad()
    loss = criterion(net(torch.randn(4, 3)), torch.randn(4, 1))
    loss.backward()  #! non-scalar-loss
    opt.step()
