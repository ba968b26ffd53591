import torch
import torch.nn as nn
import torch.nn.functional as F
def make(name, params, lr, wd):
    return {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[name](params, lr=lr, weight_decay=wd)  #!- adam-weight-decay
    #+ return {"adam": torch.optim.AdamW, "sgd": torch.optim.SGD}[name](params, lr=lr, weight_decay=wd)
net = nn.Linear(2, 1)
opt = make("adam", net.parameters(), 1e-3, 0.01)
F.mse_loss(net(torch.ones(2, 2)), torch.ones(2, 1)).backward()
opt.step()
