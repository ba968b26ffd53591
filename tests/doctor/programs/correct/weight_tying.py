import torch
from torch import nn


class LM(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, vocabulary, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, tokens):
        h, _ = self.rnn(self.embedding(tokens))
        return self.out(h)


torch.manual_seed(0)
model = LM(20, 8)
opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
for _ in range(4):
    tokens = torch.randint(0, 20, (4, 9))
    logits = model(tokens[:, :-1])
    loss = nn.functional.cross_entropy(logits.reshape(-1, 20), tokens[:, 1:].reshape(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
