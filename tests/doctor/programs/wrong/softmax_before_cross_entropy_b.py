import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(6, 8),
    nn.ReLU(),
    nn.Linear(8, 3),
    nn.Softmax(dim=-1),  #-
)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    x, y = torch.randn(8, 6), torch.randint(0, 3, (8,))
    opt.zero_grad()
    loss = F.cross_entropy(model(x).squeeze(), y)  #! softmax-before-cross-entropy
    loss.backward()
    opt.step()
