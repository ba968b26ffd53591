import torch, torch.nn as nn

torch.manual_seed(0)
# PINN: second derivatives
net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
o = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(10):
    x = torch.rand(32, 1, requires_grad=True)
    u = net(x)
    du = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]
    d2 = torch.autograd.grad(du, x, torch.ones_like(du), create_graph=True)[0]
    l = ((d2 + u) ** 2).mean() + net(torch.zeros(1, 1)).pow(2).sum()
    o.zero_grad()
    l.backward()
    o.step()
