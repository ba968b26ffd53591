"""Accelerate's `prepare`, `backward` and `gather_for_metrics` in processes that torchrun started."""

import json

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True)
torch.manual_seed(0)
x = torch.randn(64, 8)
data = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
model, optimizer, data = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1), data)
for _ in range(2):
    for inputs, targets in data:
        loss = nn.functional.mse_loss(model(inputs), targets)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
mean = accelerator.gather_for_metrics(loss.detach()).mean()
if accelerator.is_main_process:
    print("RESULT", json.dumps([accelerator.num_processes, float(mean)]), flush=True)
accelerator.end_training()
