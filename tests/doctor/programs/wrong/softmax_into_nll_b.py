import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        #+ self.out = nn.LogSoftmax(dim=-1)
        self.out = nn.Softmax(dim=-1)  #-

    def forward(self, x):
        return self.out(self.fc(x))


torch.manual_seed(0)
model = Tagger()
criterion = nn.NLLLoss()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    loss = criterion(model(torch.randn(8, 4)), torch.randint(0, 3, (8,)))  #! softmax-into-nll
    loss.backward()
    opt.step()
