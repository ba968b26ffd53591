import random

import numpy as np


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    #+ torch.manual_seed(seed)


import torch  # noqa: E402

set_seed(3)
order = [1, 2, 3]
random.shuffle(order)
weights = torch.randn(3)  #! incomplete-seeding
print(order, weights, np.random.rand())
