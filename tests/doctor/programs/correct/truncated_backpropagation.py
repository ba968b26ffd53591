import torch
from torch import nn

torch.manual_seed(0)
rnn = nn.LSTM(3, 8)
head = nn.Linear(8, 1)
opt = torch.optim.Adam([*rnn.parameters(), *head.parameters()], lr=1e-2)
series = torch.randn(60, 4, 3)
state = None
for start in range(0, 60, 10):
    chunk = series[start : start + 10]
    if state is not None:
        state = tuple(s.detach() for s in state)
    out, state = rnn(chunk, state)
    loss = nn.functional.mse_loss(head(out), chunk.sum(-1, keepdim=True))
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(rnn.parameters(), 1.0)
    opt.step()
