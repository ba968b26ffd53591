import torch

#+ threshold = torch.tensor(3)
threshold = torch.Tensor(3)  #!- uninitialised-tensor-constructor
print((torch.arange(3) > threshold).shape)
