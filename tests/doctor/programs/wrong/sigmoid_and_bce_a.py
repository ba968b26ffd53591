import torch
from torch import nn

torch.manual_seed(0)
#+ model = nn.Linear(4, 1)
model = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())  #-
#+ criterion = nn.BCEWithLogitsLoss()
criterion = nn.BCELoss()  #-
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(8, 4)
    opt.zero_grad()
    loss = criterion(model(x), (x.sum(1, keepdim=True) > 0).float())  #! sigmoid-and-bce
    loss.backward()
    opt.step()
