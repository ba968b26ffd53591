import torch
import torch.nn as nn
net = nn.Linear(4, 4)
with torch.no_grad():
    row = net.weight[0]  #-
    #+ row = net.weight[0].clone()
    row /= row.norm()  #! write-through-view
    print("unit row", row)
print(net(torch.ones(1, 4)))
