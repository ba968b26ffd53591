import torch
from torch import nn


class Evaluator:
    def __init__(self, model):
        self.model = model
        self.criterion = nn.MSELoss()

    #+ @torch.no_grad()
    def loss(self, batches):
        self.model.eval()
        total = 0.0
        for x, y in batches:
            total += self.criterion(self.model(x), y).item() * len(x)  #! missing-no-grad
        return total / sum(len(x) for x, _ in batches)


torch.manual_seed(0)
print(Evaluator(nn.Linear(3, 1)).loss([(torch.randn(4, 3), torch.randn(4, 1)) for _ in range(4)]))
