"""The demonstration's training run: split, loaders, schedule, checkpoints, pictures. It reads like any PyTorch program."""

from __future__ import annotations

import os
import time
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.utils.data import DataLoader, random_split

from .digits import DrawnDigits

EXAMPLES, BATCH = 7000, 64


def network() -> nn.Sequential:
    """Two convolutions and two affine layers: 52,000 weights."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(32 * 49, 30), nn.ReLU(), nn.Linear(30, 10),
    )  # fmt: skip


class Run:
    """A model with all that belongs to its training; saved and resumed as one."""

    def __init__(self, epochs: int, steps: int):
        self.model = network()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, 6e-3, total_steps=epochs * steps)
        self.losses: list[float] = []
        self.accuracies: list[float] = []

    @property
    def epoch(self) -> int:
        return len(self.accuracies)

    def save(self, path: str) -> None:
        torch.save(
            {
                "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                "scheduler": self.scheduler.state_dict(), "losses": self.losses, "accuracies": self.accuracies,
                "random": torch.get_rng_state(),
            },
            path,
        )  # fmt: skip

    def resume(self, path: str) -> None:
        saved = torch.load(path)
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.scheduler.load_state_dict(saved["scheduler"])
        self.losses, self.accuracies = saved["losses"], saved["accuracies"]
        torch.set_rng_state(saved["random"])

    def train(self, loader: Any, progress: Any) -> None:
        self.model.train()
        for images, labels in loader:
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(images), labels)
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            self.losses.append(loss.item())
            progress.update()
            progress.set_postfix(loss=f"{self.losses[-1]:.3f}")

    def validate(self, loader: Any) -> float:
        """The share of digits that are read rightly."""
        self.model.eval()
        right = count = 0
        with torch.no_grad():
            for images, labels in loader:
                right += (self.model(images).argmax(1) == labels).sum().item()
                count += len(labels)
        return right / count


def run(epochs: int = 6, seed: int = 0, directory: str = ".", resume: bool = False) -> int:
    """Trains, reports, draws. Returns the exit status."""
    try:
        import matplotlib
        from tqdm import tqdm
    except ImportError:
        print("the demo shows a progress bar and draws pictures: pip install 'flambeau[demo]'")
        return 1
    matplotlib.use("Agg")
    began = time.perf_counter()
    torch.manual_seed(seed)
    train_set, validation_set = random_split(DrawnDigits(EXAMPLES, seed), [6 / 7, 1 / 7])
    print(f"drew {EXAMPLES} digits in {time.perf_counter() - began:.1f} s")
    loader = DataLoader(train_set, BATCH, shuffle=True, drop_last=True)
    validation = DataLoader(validation_set, 250)
    checkpoint = os.path.join(directory, "flambeau-demo.pt")
    state = Run(epochs, len(loader))
    if resume and os.path.exists(checkpoint):
        state.resume(checkpoint)
        print(f"resumed from {checkpoint} after epoch {state.epoch}")

    began = time.perf_counter()
    while state.epoch < epochs:
        with tqdm(total=len(loader), desc=f"epoch {state.epoch + 1}/{epochs}", unit="batch") as progress:
            state.train(loader, progress)
        state.accuracies.append(state.validate(validation))
        print(f"epoch {state.epoch}: validation accuracy {state.accuracies[-1]:.2%}")
        state.save(checkpoint)
    seconds = time.perf_counter() - began

    from . import pictures

    curves, grid = (os.path.join(directory, f"flambeau-demo-{name}.png") for name in ("curves", "predictions"))
    pictures.curves(curves, state.losses, state.accuracies)
    pictures.predictions(grid, state.model, *next(iter(validation)))
    print(
        f"final loss {sum(state.losses[-50:]) / len(state.losses[-50:]):.4f}   accuracy {state.accuracies[-1]:.2%}   trained {seconds:.1f} s"
    )
    print(f"saved {checkpoint}, {curves}, {grid}")
    return 0
