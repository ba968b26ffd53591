import torch
from torch import nn


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Parameter(torch.empty(4, 8))
        self.w2 = nn.Parameter(torch.empty(8, 2))
        nn.init.xavier_uniform_(self.w1)
        nn.init.xavier_uniform_(self.w2)
        self.drop = nn.Dropout(0.3)

    def forward(self, x, a):
        h = self.drop(torch.relu(a @ x @ self.w1))
        return a @ h @ self.w2


torch.manual_seed(0)
adjacency = (torch.rand(12, 12) < 0.3).float()
adjacency = ((adjacency + adjacency.t() + torch.eye(12)) > 0).float()
degree = adjacency.sum(1).rsqrt()
adjacency = degree.unsqueeze(1) * adjacency * degree
x, y = torch.randn(12, 4), torch.randint(0, 2, (12,))
train_mask = torch.arange(12) < 8
net = GCN()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(6):
    net.train()
    opt.zero_grad()
    loss = nn.functional.cross_entropy(net(x, adjacency)[train_mask], y[train_mask])
    loss.backward()
    opt.step()
    net.eval()
    with torch.no_grad():
        print((net(x, adjacency).argmax(1) == y)[~train_mask].float().mean().item())
