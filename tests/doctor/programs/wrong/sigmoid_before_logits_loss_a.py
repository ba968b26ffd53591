import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
criterion = nn.BCEWithLogitsLoss()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(8, 4)
    opt.zero_grad()
    out = model(x)
    out = torch.sigmoid(out)  #-
    loss = criterion(out, (x.sum(1, keepdim=True) > 0).float())  #! sigmoid-before-logits-loss
    loss.backward()
    opt.step()
