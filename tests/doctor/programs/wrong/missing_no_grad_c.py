import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
for _ in range(3):
    model.train()
    opt.zero_grad()
    criterion(model(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
    opt.step()
    model.eval()
    #+ with torch.no_grad():
    #+     print(criterion(model(torch.randn(8, 4)), torch.randint(0, 2, (8,))).item())
    print(criterion(model(torch.randn(8, 4)), torch.randint(0, 2, (8,))).item())  #!- missing-no-grad
