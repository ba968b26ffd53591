import torch


def scale(x, factor=2):
    #+ return x * torch.tensor(float(factor))
    return x * torch.FloatTensor(factor)  #!- uninitialised-tensor-constructor


print(scale(torch.ones(2)).shape)
