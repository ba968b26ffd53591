import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
criterion = nn.TripletMarginLoss(margin=1.0)
for _ in range(5):
    anchor, positive, negative = torch.randn(8, 6), torch.randn(8, 6), torch.randn(8, 6)
    loss = criterion(net(anchor), net(positive), net(negative))
    opt.zero_grad()
    loss.backward()
    opt.step()
