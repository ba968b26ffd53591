import numpy as np
import torch
from torch import nn


def main():
    np.random.seed(0)
    torch.manual_seed(0)
    x = np.random.randn(40, 3).astype(np.float32)
    y = x @ np.array([1.0, 2.0, 3.0], dtype=np.float32)
    x_t, y_t = torch.from_numpy(x), torch.from_numpy(y)
    net = nn.Linear(3, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    history = []
    for _ in range(10):
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(x_t).squeeze(1), y_t)
        loss.backward()
        opt.step()
        history.append(loss.item())
    net.eval()
    with torch.no_grad():
        prediction = net(x_t).squeeze(1).numpy()
    print(np.mean(history), np.abs(prediction - y).mean())


if __name__ == "__main__":
    main()
