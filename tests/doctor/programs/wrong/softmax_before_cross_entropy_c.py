import torch
import torch.nn as nn
import torch.nn.functional as F
def mlp(sizes, out_act):
    layers = []
    for i, o in zip(sizes[:-2], sizes[1:-1]):
        layers += [nn.Linear(i, o), nn.ReLU()]
    layers += [nn.Linear(sizes[-2], sizes[-1])]
    if out_act is not None:
        layers.append(out_act)
    return nn.Sequential(*layers)
def main():
    torch.manual_seed(0)
    net = mlp([3, 8, 4], nn.Softmax(dim=1))  #-
    #+ net = mlp([3, 8, 4], None)
    opt = torch.optim.Adam(net.parameters())
    for _ in range(6):
        x, y = torch.randn(9, 3), torch.randint(0, 4, (9,))
        loss = F.cross_entropy(net(x), y)  #! softmax-before-cross-entropy
        opt.zero_grad()
        loss.backward()
        opt.step()
main()
