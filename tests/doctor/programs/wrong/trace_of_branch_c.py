import torch
import torch.nn as nn
net = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.Linear(3, 1))
#+ net.eval()
ts = torch.jit.trace(net, torch.randn(1, 3))  #! trace-of-branch
print(ts(torch.zeros(1, 3)))
