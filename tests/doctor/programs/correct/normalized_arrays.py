import numpy as np
import torch
import torch.nn as nn
np.random.seed(0)
torch.manual_seed(0)
X = np.random.rand(60, 4).astype(np.float32)
X -= X.mean(0)
X /= X.std(0)
t = torch.from_numpy(X)
y = torch.as_tensor(X[:, 0] * 2 - X[:, 1])
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(20):
    loss = (net(t).squeeze(1) - y).abs().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
pred = net(t).detach().cpu().numpy()
print(pred.shape, np.corrcoef(pred[:, 0], y.numpy())[0, 1])
