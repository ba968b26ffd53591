import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence, pack_padded_sequence, pad_packed_sequence
torch.manual_seed(0)
class Tag(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(30, 8, padding_idx=0)
        self.r = nn.LSTM(8, 8, batch_first=True, bidirectional=True)
        self.o = nn.Linear(16, 4)
    def forward(self, x, n):
        p = pack_padded_sequence(self.e(x), n, batch_first=True, enforce_sorted=False)
        h, _ = pad_packed_sequence(self.r(p)[0], batch_first=True)
        return self.o(h)
m = Tag()
opt = torch.optim.Adam(m.parameters())
for _ in range(5):
    n = torch.randint(2, 7, (6,))
    x = pad_sequence([torch.randint(1, 30, (int(k),)) for k in n], batch_first=True)
    y = pad_sequence([torch.randint(0, 4, (int(k),)) for k in n], batch_first=True, padding_value=-100)
    out = m(x, n)
    loss = F.cross_entropy(out.transpose(1, 2), y, ignore_index=-100)
    opt.zero_grad()
    loss.backward()
    opt.step()
