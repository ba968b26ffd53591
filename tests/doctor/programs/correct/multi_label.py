import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 4))
criterion = nn.BCEWithLogitsLoss(pos_weight=torch.full((4,), 2.0))
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
for _ in range(5):
    x = torch.randn(16, 6)
    y = (x[:, :4] > 0).float()
    opt.zero_grad()
    loss = criterion(net(x), y)
    loss.backward()
    opt.step()
net.eval()
with torch.no_grad():
    print((torch.sigmoid(net(torch.randn(3, 6))) > 0.5).int())
