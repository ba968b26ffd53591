import os
import tempfile

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
net = nn.Linear(3, 1).to(device)
path = os.path.join(tempfile.mkdtemp(), "weights.pt")
torch.save(net.state_dict(), path)
#+ net.load_state_dict(torch.load(path, map_location=device))
net.load_state_dict(torch.load(path))  #!- load-without-map-location
