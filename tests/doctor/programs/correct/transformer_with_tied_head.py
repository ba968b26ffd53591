import torch
import torch.nn as nn
import torch.nn.functional as F
class LM(nn.Module):
    def __init__(self, v=20, d=16, T=8):
        super().__init__()
        self.tok, self.pos = nn.Embedding(v, d), nn.Embedding(T, d)
        layer = nn.TransformerEncoderLayer(d, 2, 32, dropout=0.1, batch_first=True)
        self.tr = nn.TransformerEncoder(layer, 1)
        self.head = nn.Linear(d, v, bias=False)
        self.head.weight = self.tok.weight
        self.register_buffer("mask", torch.triu(torch.full((T, T), float("-inf")), 1))
    def forward(self, i):
        T = i.size(1)
        h = self.tok(i) + self.pos(torch.arange(T, device=i.device))
        return self.head(self.tr(h, mask=self.mask[:T, :T]))
torch.manual_seed(0)
m = LM()
opt = torch.optim.AdamW(m.parameters(), lr=1e-3, weight_decay=0.01)
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 5))
for _ in range(10):
    i = torch.randint(0, 20, (4, 9))
    out = m(i[:, :-1])
    loss = F.cross_entropy(out.reshape(-1, 20), i[:, 1:].reshape(-1))
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(m.parameters(), 1.0)
    opt.step()
    sched.step()
m.eval()
ids = torch.zeros(1, 1, dtype=torch.long)
with torch.no_grad():
    for _ in range(5):
        p = m(ids)[:, -1].softmax(-1)
        ids = torch.cat([ids, torch.multinomial(p, 1)], 1)
