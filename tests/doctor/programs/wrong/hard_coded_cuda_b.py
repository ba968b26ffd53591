import torch

#+ device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
device = torch.device("cuda:0")  #!- hard-coded-cuda
print(torch.ones(3, device=device))
