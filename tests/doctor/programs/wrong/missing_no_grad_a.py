import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
val_loader = DataLoader(TensorDataset(torch.randn(32, 4), torch.randint(0, 2, (32,))), batch_size=8)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
    optimizer.step()
model.eval()
correct = 0
#+ torch.set_grad_enabled(False)
for x, y in val_loader:
    out = model(x)  #! missing-no-grad
    correct += (out.argmax(1) == y).sum().item()
print(correct)
#+ torch.set_grad_enabled(True)
