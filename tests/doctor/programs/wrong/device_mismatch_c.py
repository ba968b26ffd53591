import torch
import torch.nn as nn
import torch.nn.functional as F
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
data = [(torch.randn(16, 8), torch.randint(0, 3, (16,))) for _ in range(6)]
for epoch in range(2):
    for x, y in data:  #-
        loss = F.cross_entropy(model(x), y)  #!- device-mismatch
    #+ for x, y in data:
        #+ x, y = x.to(device), y.to(device)
        #+ loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
