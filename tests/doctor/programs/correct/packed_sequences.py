import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

torch.manual_seed(0)
embed = nn.Embedding(20, 8, padding_idx=0)
rnn = nn.GRU(8, 8, batch_first=True, bidirectional=True)
head = nn.Linear(16, 2)
parameters = [*embed.parameters(), *rnn.parameters(), *head.parameters()]
opt = torch.optim.Adam(parameters, lr=1e-2)
for _ in range(4):
    lengths = torch.tensor([6, 4, 3])
    tokens = torch.randint(1, 20, (3, 6))
    packed = pack_padded_sequence(embed(tokens), lengths, batch_first=True)
    out, _ = pad_packed_sequence(rnn(packed)[0], batch_first=True)
    mask = (torch.arange(6) < lengths.unsqueeze(1)).unsqueeze(-1)
    pooled = (out * mask).sum(1) / lengths.unsqueeze(1)
    loss = nn.functional.cross_entropy(head(pooled), torch.tensor([0, 1, 0]))
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(parameters, 1.0)
    opt.step()
