import sys
import torch
import torch.nn as nn
def restore(net, path):
    ck = torch.load(path, weights_only=True)  #!- load-without-map-location
    #+ ck = torch.load(path, weights_only=True, map_location=torch.device("cpu"))
    net.load_state_dict(ck["state_dict"])
    return net
if len(sys.argv) > 1:
    restore(nn.Linear(2, 2), sys.argv[1])
