import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 8)
        self.rnn = nn.LSTM(8, 8)
        self.out = nn.Linear(8, 5)

    def forward(self, tokens):  # (time, batch)
        states, _ = self.rnn(self.embed(tokens))
        return self.out(states)


torch.manual_seed(0)
net = Tagger()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(4):
    tokens = torch.randint(0, 30, (7, 4))
    tags = torch.randint(0, 5, (7, 4))
    loss = nn.functional.cross_entropy(net(tokens).view(-1, 5), tags.view(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
