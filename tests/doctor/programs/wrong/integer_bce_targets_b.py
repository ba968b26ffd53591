import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 2)
#+ labels = torch.tensor([[0.0, 1.0], [1.0, 1.0]])
labels = torch.tensor([[0, 1], [1, 1]])  #-
try:
    print(F.binary_cross_entropy_with_logits(net(torch.randn(2, 3)), labels).item())  #! integer-bce-targets
except RuntimeError as error:
    print(error)
