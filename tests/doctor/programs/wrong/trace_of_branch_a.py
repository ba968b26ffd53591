import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
#+ net.eval()
traced = torch.jit.trace(net, torch.randn(2, 3), check_trace=False)  #! trace-of-branch
print(traced(torch.randn(2, 3)).shape)
