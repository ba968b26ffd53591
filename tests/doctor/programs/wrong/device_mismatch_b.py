import torch
import torch.nn as nn


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        #+ mask = torch.ones(x.shape, device=x.device)
        mask = torch.ones(x.shape)  #!- device-mismatch
        return self.fc(x) * mask


def main():
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    net = Noisy().to(device)
    x = torch.randn(4, 3).to(device)
    net.eval()
    with torch.no_grad():
        print(net(x).sum())


if __name__ == "__main__":
    main()
