import torch
import torch.nn as nn
class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.loss_fn = nn.MSELoss()
    def train_step(self, x, y):
        out = self.model(x)
        loss = self.loss_fn(out, y)
        #+ self.model.zero_grad()
        loss.backward()  #! missing-zero-grad
        self.optimizer.step()
        return loss.item()
    def fit(self, n):
        for i in range(n):
            x = torch.randn(4, 2)
            self.train_step(x, x.prod(1, keepdim=True))
torch.manual_seed(0)
Trainer(nn.Linear(2, 1), 0.01).fit(8)
