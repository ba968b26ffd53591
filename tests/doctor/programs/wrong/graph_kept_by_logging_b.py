import torch
from torch import nn


def train(net, opt, history):
    for _ in range(5):
        opt.zero_grad()
        loss = net(torch.randn(8, 3)).pow(2).mean()
        loss.backward()
        opt.step()
        #+ history["loss"].append(loss.detach())
        history["loss"].append(loss)  #!- graph-kept-by-logging


torch.manual_seed(0)
net = nn.Linear(3, 1)
history = {"loss": []}
train(net, torch.optim.SGD(net.parameters(), lr=0.1), history)
print(len(history["loss"]))
