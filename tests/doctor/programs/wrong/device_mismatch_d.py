import torch
import torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(3, 5, batch_first=True)
        self.o = nn.Linear(5, 1)
    def forward(self, x):
        h0 = torch.zeros(1, x.size(0), 5)  #!- device-mismatch
        #+ h0 = torch.zeros(1, x.size(0), 5, device=x.device)
        y, _ = self.rnn(x, h0)
        return self.o(y[:, -1])
def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    net = Net().to(device)
    opt = torch.optim.Adam(net.parameters())
    for _ in range(3):
        x = torch.randn(4, 6, 3).to(device)
        loss = net(x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
main()
