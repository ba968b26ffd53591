import os
import tempfile

import torch
from torch import nn


def make():
    model = nn.Linear(3, 1)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    return model, opt, torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=6)


def train(model, opt, scheduler, epochs):
    for _ in epochs:
        for _ in range(3):
            opt.zero_grad()
            model(torch.randn(8, 3)).pow(2).mean().backward()
            opt.step()
        scheduler.step()


def main():
    torch.manual_seed(0)
    path = os.path.join(tempfile.mkdtemp(), "checkpoint.pt")
    model, opt, scheduler = make()
    train(model, opt, scheduler, range(3))
    torch.save(
        {"epoch": 3, "model": model.state_dict(), "opt": opt.state_dict(), "scheduler": scheduler.state_dict()}, path
    )
    model, opt, scheduler = make()
    checkpoint = torch.load(path, map_location="cpu")
    model.load_state_dict(checkpoint["model"])
    opt.load_state_dict(checkpoint["opt"])
    scheduler.load_state_dict(checkpoint["scheduler"])
    train(model, opt, scheduler, range(checkpoint["epoch"], 6))


if __name__ == "__main__":
    main()
