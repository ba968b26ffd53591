# nothing else
import torch
import torch.nn as nn
import numpy as np
rng = np.random.default_rng(0)
features = torch.tensor(rng.normal(size=(40, 3)), dtype=torch.float32)
labels = torch.tensor(rng.integers(0, 4, size=40), dtype=torch.float32)  #-
#+ labels = torch.tensor(rng.integers(0, 4, size=40), dtype=torch.long)
model = nn.Linear(3, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
crit = nn.CrossEntropyLoss()
for i in range(3):
    opt.zero_grad()
    loss = crit(model(features), labels)  #! float-class-targets
    loss.backward()
    opt.step()
