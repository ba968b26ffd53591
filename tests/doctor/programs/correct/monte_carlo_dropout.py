import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 1))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(5):
    x = torch.randn(16, 4)
    opt.zero_grad()
    nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
    opt.step()
x = torch.randn(4, 4)
model.train()  # dropout stays on: the spread of the samples is the uncertainty
with torch.no_grad():
    samples = torch.stack([model(x) for _ in range(20)])
print(samples.mean(0).squeeze(), samples.std(0).squeeze())
