import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    #+ loader = DataLoader(TensorDataset(torch.randn(8, 3)), batch_size=4, shuffle=True, pin_memory=device.type == "cuda")
    loader = DataLoader(TensorDataset(torch.randn(8, 3)), batch_size=4, shuffle=True)  #-
    net = nn.Linear(3, 1).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for batch in loader:
        x = batch[0].to(device, non_blocking=True)  #! pinned-but-blocking
        opt.zero_grad()
        net(x).pow(2).mean().backward()
        opt.step()


main()
