import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(5, 8)
        self.bn = nn.BatchNorm1d(8)
        self.b = nn.Linear(8, 1)

    def forward(self, x):
        return self.b(torch.relu(self.bn(self.a(x))))


@torch.no_grad()
def evaluate(model, x, y):
    #+ model.eval()
    prediction = model(x)  #! missing-eval
    return nn.functional.mse_loss(prediction, y).item()


def main():
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(4):
        model.train()
        x = torch.randn(16, 5)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), x.mean(1, keepdim=True))
        loss.backward()
        optimizer.step()
        print(evaluate(model, torch.randn(16, 5), torch.randn(16, 1)))


main()
