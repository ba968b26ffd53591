import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 3)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    logits = model(torch.randn(8, 4))
    #+ probabilities = F.log_softmax(logits, dim=1)
    probabilities = F.softmax(logits, dim=1)  #-
    loss = F.nll_loss(probabilities, torch.randint(0, 3, (8,)))  #! softmax-into-nll
    loss.backward()
    opt.step()
