import os
import tempfile

import torch
from torch import nn


class Store:
    def __init__(self, folder):
        self.path = os.path.join(folder, "last.ckpt")

    def save(self, model):
        torch.save({"state": model.state_dict()}, self.path)

    def restore(self, model):
        #+ state = torch.load(self.path, map_location=torch.device("cpu"))
        state = torch.load(self.path, weights_only=True)  #!- load-without-map-location
        model.load_state_dict(state["state"])


store = Store(tempfile.mkdtemp())
store.save(nn.Linear(2, 2))
store.restore(nn.Linear(2, 2))
