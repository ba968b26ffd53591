import torch

torch.manual_seed(0)
x = torch.randn(4, 3)
#+ y = torch.log_softmax(x, dim=1)
y = torch.log(torch.softmax(x, dim=1))  #!- log-of-softmax
print(y)
