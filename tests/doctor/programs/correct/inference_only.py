import argparse
import os
import tempfile

import torch
from torch import nn


def build():
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    path = os.path.join(tempfile.mkdtemp(), "w.pt")
    torch.save(build().state_dict(), path)
    model = build()
    model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    model.eval()
    with torch.inference_mode():
        probabilities = torch.softmax(model(torch.randn(args.batch, 4)), dim=-1)
    print(probabilities.argmax(-1).tolist())


if __name__ == "__main__":
    main()
