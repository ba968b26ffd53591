import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 3)

    def forward(self, x):
        #+ return self.fc(x)
        return torch.softmax(self.fc(x), dim=1)  #-


def train(model, criterion, optimizer, data):
    for x, y in data:
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, y)  #! softmax-before-cross-entropy
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
net = Net()
batches = [(torch.randn(8, 6), torch.randint(0, 3, (8,))) for _ in range(4)]
train(net, nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), lr=0.1), batches)
