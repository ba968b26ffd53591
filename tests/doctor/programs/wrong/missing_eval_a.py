import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(64, 5), torch.randint(0, 2, (64,))
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
test_loader = DataLoader(TensorDataset(x, y), batch_size=16)
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model.train()
    for a, b in loader:
        opt.zero_grad()
        nn.functional.cross_entropy(model(a), b).backward()
        opt.step()
    #+ model.eval()
    correct = 0
    with torch.no_grad():
        for a, b in test_loader:
            out = model(a)  #! missing-eval
            correct += (out.argmax(1) == b).sum().item()
    print(correct)
