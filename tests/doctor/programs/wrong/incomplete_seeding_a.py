import numpy as np
import torch

torch.manual_seed(0)
#+ np.random.seed(0)
noise = np.random.randn(4)  #! incomplete-seeding
print(torch.randn(4) + torch.tensor(noise))
