import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder = nn.Linear(4, 2), nn.Linear(2, 4)
#+ opt = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])
opt = torch.optim.Adam(encoder.parameters())  #!- optimizer-misses-parameters
for _ in range(4):
    x = torch.randn(8, 4)
    opt.zero_grad()
    nn.functional.mse_loss(decoder(torch.tanh(encoder(x))), x).backward()
    opt.step()
