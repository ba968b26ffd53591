import random
import torch
import torch.nn as nn
def set_seed(s):
    torch.manual_seed(s)
    #+ random.seed(s)
set_seed(3)
items = list(range(20))
random.shuffle(items)  #! incomplete-seeding
print(nn.Linear(1, 1)(torch.tensor(items).float()[:, None]).mean())
