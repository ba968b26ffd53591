import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
dl = DataLoader(TensorDataset(torch.randn(64, 3), torch.randn(64, 1)), batch_size=8, shuffle=True)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
sched = torch.optim.lr_scheduler.MultiStepLR(opt, milestones=[2, 4])
def one_epoch():
    for x, y in dl:
        opt.zero_grad()
        F.mse_loss(net(x), y).backward()
        opt.step()
        sched.step()  #!- scheduler-cadence
for _ in range(5):
    one_epoch()
    #+ sched.step()
