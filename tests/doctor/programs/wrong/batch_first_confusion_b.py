import torch
from torch import nn


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        #+ self.gru = nn.GRU(input_size=3, hidden_size=8, batch_first=True)
        self.gru = nn.GRU(input_size=3, hidden_size=8)  #-
        self.out = nn.Linear(8, 1)

    def forward(self, sequences):
        states, last = self.gru(sequences)  #! batch-first-confusion
        return self.out(states.mean(dim=1))


torch.manual_seed(0)
net = Regressor()
opt = torch.optim.Adam(net.parameters())
for _ in range(3):
    x = torch.randn(16, 6, 3)
    opt.zero_grad()
    nn.functional.mse_loss(net(x), x.sum((1, 2)).unsqueeze(1)).backward()
    opt.step()
