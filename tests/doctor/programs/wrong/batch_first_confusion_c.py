import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
class Price(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(input_size=2, hidden_size=8, num_layers=1)  #-
        #+ self.gru = nn.GRU(input_size=2, hidden_size=8, num_layers=1, batch_first=True)
        self.fc = nn.Linear(8, 1)
    def forward(self, x):
        out, _ = self.gru(x)  #! batch-first-confusion
        return self.fc(out[:, -1, :])
batch_size, seq_len = 32, 10
x = torch.randn(batch_size, seq_len, 2)
y = torch.randn(batch_size, 1)
m = Price()
o = torch.optim.Adam(m.parameters())
for _ in range(4):
    o.zero_grad()
    F.mse_loss(m(x), y).backward()
    o.step()
