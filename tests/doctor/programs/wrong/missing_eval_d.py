import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
net = nn.Sequential(nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(5):
    x, y = torch.randn(8, 2, 8), torch.randint(0, 2, (8,))
    opt.zero_grad()
    F.cross_entropy(net(x), y).backward()
    opt.step()
def predict(x):
    #+ net.eval()
    with torch.inference_mode():
        return net(x).argmax(-1)  #! missing-eval
print(predict(torch.randn(4, 2, 8)))
