import math

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, c, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.qkv, self.proj = nn.Linear(c, 3 * c), nn.Linear(c, c)
        self.mlp = nn.Sequential(nn.Linear(c, 4 * c), nn.GELU(), nn.Linear(4 * c, c), nn.Dropout(0.1))
        self.heads = heads
        self.register_buffer("mask", torch.tril(torch.ones(16, 16)).bool())

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(self.n1(x)).split(C, dim=2)
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in (q, k, v))
        a = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        a = a.masked_fill(~self.mask[:T, :T], float("-inf"))
        y = (F.softmax(a, dim=-1) @ v).transpose(1, 2).contiguous().view(B, T, C)
        x = x + self.proj(y)
        return x + self.mlp(self.n2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary=20, c=16):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocabulary, c), nn.Embedding(16, c)
        self.blocks = nn.ModuleList([Block(c, 2) for _ in range(2)])
        self.head = nn.Linear(c, vocabulary, bias=False)
        self.tok.weight = self.head.weight

    def forward(self, idx, targets=None):
        x = self.tok(idx) + self.pos(torch.arange(idx.size(1), device=idx.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(x)
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        return logits, loss


torch.manual_seed(0)
model = GPT()
opt = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)
for _ in range(4):
    data = torch.randint(0, 20, (4, 17))
    _, loss = model(data[:, :-1], data[:, 1:].contiguous())
    opt.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
model.eval()
idx = torch.zeros(1, 1, dtype=torch.long)
with torch.no_grad():
    for _ in range(5):
        logits, _ = model(idx)
        probabilities = F.softmax(logits[:, -1, :], dim=-1)
        idx = torch.cat([idx, torch.multinomial(probabilities, 1)], dim=1)
print(idx)
