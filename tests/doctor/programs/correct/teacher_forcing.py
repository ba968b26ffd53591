import torch, torch.nn as nn

torch.manual_seed(0)


# seq2seq with teacher forcing loop, ModuleList, manual attention
class S(nn.Module):
    def __init__(s, v=12, h=8):
        super().__init__()
        s.e = nn.Embedding(v, h)
        s.enc = nn.GRU(h, h, batch_first=True)
        s.cell = nn.GRUCell(h, h)
        s.o = nn.Linear(h, v)

    def forward(s, src, tgt):
        _, h = s.enc(s.e(src))
        h = h[0]
        outs = []
        for t in range(tgt.size(1)):
            h = s.cell(s.e(tgt[:, t]), h)
            outs.append(s.o(h))
        return torch.stack(outs, 1)


m = S()
o = torch.optim.Adam(m.parameters(), lr=1e-2)
for _ in range(5):
    a = torch.randint(0, 12, (4, 6))
    b = torch.randint(0, 12, (4, 5))
    l = nn.functional.cross_entropy(m(a, b[:, :-1]).flatten(0, 1), b[:, 1:].flatten())
    o.zero_grad()
    l.backward()
    nn.utils.clip_grad_norm_(m.parameters(), 1.0)
    o.step()
