import os
import tempfile

import torch
from torch import nn

net = nn.Linear(3, 1)
path = os.path.join(tempfile.mkdtemp(), "model.pt")
#+ torch.save(net.state_dict(), path)
torch.save(net, path)  #!- whole-model-pickled
