import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
y = torch.randint(0, 2, (8,))
#+ y = y.float()
opt.zero_grad()
loss = nn.BCEWithLogitsLoss()(model(torch.randn(8, 4)).squeeze(1), y)  #! integer-bce-targets
loss.backward()
opt.step()
