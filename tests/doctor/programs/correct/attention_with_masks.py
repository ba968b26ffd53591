import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.1)
encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
head = nn.Linear(8, 3)
parameters = [*encoder.parameters(), *head.parameters()]
opt = torch.optim.AdamW(parameters, lr=1e-3)
for _ in range(3):
    x = torch.randn(4, 6, 8)
    padding = torch.arange(6) >= torch.tensor([6, 5, 4, 3]).unsqueeze(1)
    out = encoder(x, src_key_padding_mask=padding)
    scores = head(out).masked_fill(padding.unsqueeze(-1), 0)
    loss = F.cross_entropy(scores.mean(1), torch.randint(0, 3, (4,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
