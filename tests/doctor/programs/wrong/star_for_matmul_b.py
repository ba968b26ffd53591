import torch

torch.manual_seed(0)
queries, keys = torch.randn(4, 4), torch.randn(4, 4)
#+ scores = queries @ keys.T
scores = queries * keys.T  #?- star-for-matmul
print(scores.softmax(-1))
