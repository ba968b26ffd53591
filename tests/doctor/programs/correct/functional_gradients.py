import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad, vmap
torch.manual_seed(0)
net = nn.Linear(2, 1)
params = {k: v.detach().clone() for k, v in net.named_parameters()}
def loss_fn(p, x, y):
    return F.mse_loss(functional_call(net, p, (x,)), y)
for _ in range(5):
    x = torch.randn(8, 2)
    g = grad(loss_fn)(params, x, x.sum(1, keepdim=True))
    params = {k: v - 0.1 * g[k] for k, v in params.items()}
per = vmap(grad(loss_fn), (None, 0, 0))(params, x.unsqueeze(1), x.sum(1, keepdim=True).unsqueeze(1))
print(per["weight"].shape)
