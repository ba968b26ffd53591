import torch
from torch import nn


def adapt(model, classes):
    model[2] = nn.Linear(8, classes)
    return model


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 100))
#+ model = adapt(model, 3)
optimizer = torch.optim.Adam(model[2].parameters(), lr=1e-2)  #! optimizer-of-old-parameters
for p in model[0].parameters():
    p.requires_grad = False
model = adapt(model, 3)  #-
for _ in range(4):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 3, (8,))).backward()
    optimizer.step()
