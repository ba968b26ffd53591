import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    loader = DataLoader(TensorDataset(torch.randn(16, 2)), batch_size=4, shuffle=True)  #-
    #+ loader = DataLoader(TensorDataset(torch.randn(16, 2)), batch_size=4, shuffle=True, pin_memory=True)
    net = nn.Linear(2, 1).to(device)
    for (x,) in loader:
        x = x.to(device, non_blocking=True)  #! pinned-but-blocking
        with torch.no_grad():
            print(net(x).mean())
if __name__ == "__main__":
    main()
