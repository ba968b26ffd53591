import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        #+ self.rnn = nn.LSTM(3, 8, batch_first=True)
        self.rnn = nn.LSTM(3, 8)  #-
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        out, _ = self.rnn(x)  #! batch-first-confusion
        return self.head(out[:, -1])


torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(32, 5, 3), torch.randint(0, 2, (32,))), batch_size=8, shuffle=True)
net = Classifier()
opt = torch.optim.Adam(net.parameters())
for x, y in loader:
    opt.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    opt.step()
