import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(64, 4), torch.randn(64, 1)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
criterion = nn.MSELoss()
for _ in range(6):
    #+ optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()  #! missing-zero-grad
    optimizer.step()
