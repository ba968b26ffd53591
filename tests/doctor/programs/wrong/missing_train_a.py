import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
model.train()  #-
for _ in range(3):
    #+ model.train()
    for _ in range(3):
        x, y = torch.randn(8, 5), torch.randint(0, 2, (8,))
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)  #! missing-train
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        print(model(torch.randn(8, 5)).argmax(1))
