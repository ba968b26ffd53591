import io
import torch
import torch.nn as nn
net = nn.Sequential(nn.Linear(2, 2))
buf = io.BytesIO()
torch.save({"model": net, "epoch": 3}, buf)  #!- whole-model-pickled
#+ torch.save({"model": net.state_dict(), "epoch": 3}, buf)
