"""Checkpoints: states of models and optimizers, tensors in files, exchange with NumPy."""

import io
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import flambeau as torch
import flambeau.nn as nn

model = nn.LSTM(4, 8, num_layers=2, batch_first=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
output, (h, c) = model(torch.rand(2, 5, 4))
(output.sum() + h.sum() + c.sum()).backward()
optimizer.step()


def save_checkpoint(path: Path, epoch: int, **more: Any) -> None:
    torch.save({"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict(), **more}, path)


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "checkpoint.pt"
    save_checkpoint(path, 3, best=0.5)
    checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    missing, unexpected = model.load_state_dict(checkpoint["model"], strict=False)
    optimizer.load_state_dict(checkpoint["optimizer"])
    for group in optimizer.param_groups:
        group["lr"] *= 0.1
    print(checkpoint["epoch"], missing, unexpected, os.path.getsize(path) > 0)

buffer = io.BytesIO()
torch.save(torch.arange(3), buffer)
buffer.seek(0)
print(torch.load(buffer))
array = np.arange(6, dtype=np.float32).reshape(2, 3)
t = torch.from_numpy(array)
t += 1
shared = t.numpy()
copy = torch.tensor(array, dtype=torch.float64)
half = copy.half().contiguous()
print(array[0, 0], shared.dtype, half.dtype, half.element_size(), t.stride(), t.is_contiguous(), t.device.type)
weights = torch.nn.utils.parameters_to_vector(model.parameters())
print(weights.shape, torch.get_default_dtype(), torch.equal(t, torch.as_tensor(shared)))
