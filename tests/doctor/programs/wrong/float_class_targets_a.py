import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 3)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
#+ y = torch.from_numpy(np.array([0, 1, 2, 0]))
y = torch.from_numpy(np.array([0.0, 1.0, 2.0, 0.0], dtype=np.float32))  #-
opt.zero_grad()
loss = nn.CrossEntropyLoss()(model(torch.randn(4, 4)), y)  #! float-class-targets
loss.backward()
opt.step()
