import io

import torch
from torch import nn


def keep(model, epoch):
    buffer = io.BytesIO()
    #+ state = {"epoch": epoch, "model": model.state_dict()}
    state = {"epoch": epoch, "model": model}  #-
    torch.save(state, buffer)  #! whole-model-pickled
    return buffer


keep(nn.Linear(3, 1), 4)
