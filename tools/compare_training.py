"""Trains the same networks with the same seed on flambeau and on PyTorch, and compares the losses of every step.

Also trains half of the steps on one, saves a checkpoint (model, optimizer, scheduler, random state) and goes on with it
on the other: the losses must be those of a run without a break.

    python tools/compare_training.py [--steps 50] [--tolerance 1e-4] [names...]

Both must be importable. Weights, dropout masks and shuffles come from the same random streams, so the curves agree
until rounding pulls them apart. The exit status is 0 if every loss agrees to the tolerance (relative).
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from collections.abc import Callable
from typing import Any


def mlp(T: Any) -> tuple[Any, Callable[[Any], Any]]:
    nn = T.nn
    model = nn.Sequential(
        nn.Linear(32, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10)
    )
    x, y = T.randn(256, 32), T.randint(0, 10, (256,))
    data = T.utils.data
    batches = iter(data.DataLoader(data.TensorDataset(x, y), 32, sampler=data.RandomSampler(x, True, 64 * 32)))

    def loss(model: Any) -> Any:
        inputs, targets = next(batches)
        return nn.functional.cross_entropy(model(inputs), targets)

    return model, loss


def cnn(T: Any) -> tuple[Any, Callable[[Any], Any]]:
    nn = T.nn
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, stride=2), nn.GroupNorm(4, 16), nn.SiLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 5),
    )  # fmt: skip
    x, y = T.randn(16, 3, 16, 16), T.randint(0, 5, (16,))
    return model, lambda model: nn.functional.cross_entropy(model(x), y, label_smoothing=0.1)


def lstm(T: Any) -> tuple[Any, Callable[[Any], Any]]:
    nn = T.nn

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(50, 16)
            self.lstm = nn.LSTM(16, 24, num_layers=2, batch_first=True, bidirectional=True, dropout=0.2)
            self.head = nn.Linear(48, 7)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(self.embedding(x))[0])

    x, y = T.randint(0, 50, (8, 12)), T.randint(0, 7, (8, 12))
    return Tagger(), lambda model: nn.functional.cross_entropy(model(x).transpose(1, 2), y)


def transformer(T: Any) -> tuple[Any, Callable[[Any], Any]]:
    nn = T.nn

    class Language(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.position = nn.Embedding(40, 32), nn.Embedding(16, 32)
            layer = nn.TransformerEncoderLayer(
                32, 4, 64, dropout=0.1, activation="gelu", batch_first=True, norm_first=True
            )
            self.encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(32), enable_nested_tensor=False)
            self.head = nn.Linear(32, 40)

        def forward(self, x: Any) -> Any:
            mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
            return self.head(
                self.encoder(self.token(x) + self.position(T.arange(x.shape[1])), mask=mask, is_causal=True)
            )

    x = T.randint(0, 40, (8, 17))
    return Language(), lambda model: nn.functional.cross_entropy(model(x[:, :-1]).reshape(-1, 40), x[:, 1:].reshape(-1))


CASES = {"mlp": mlp, "cnn": cnn, "lstm": lstm, "transformer": transformer}


class Run:
    """A network with AdamW, clipped gradients and a schedule."""

    def __init__(self, T: Any, case: Callable[..., Any], steps: int):
        T.manual_seed(0)
        self.T = T
        self.model, self.loss_of = case(T)
        self.optimizer = T.optim.AdamW(self.model.parameters(), lr=2e-3)
        self.scheduler = T.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, steps)

    def losses(self, steps: int) -> list[float]:
        found = []
        for _ in range(steps):
            self.optimizer.zero_grad()
            loss = self.loss_of(self.model)
            loss.backward()
            self.T.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.scheduler.step()
            found.append(loss.item())
        return found

    def save(self, path: str) -> None:
        parts = (self.model, self.optimizer, self.scheduler)
        self.T.save([*[part.state_dict() for part in parts], self.T.get_rng_state()], path)

    def resume(self, path: str) -> None:
        *states, random = self.T.load(path)
        for part, state in zip((self.model, self.optimizer, self.scheduler), states):
            part.load_state_dict(state)
        self.T.set_rng_state(random)


def crossed(first: Any, second: Any, case: Callable[..., Any], steps: int) -> list[float]:
    """The losses of a run that changes from one framework to the other in the middle."""
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/checkpoint.pt"
        run = Run(first, case, steps)
        found = run.losses(steps // 2)
        run.save(path)
        other = Run(second, case, steps)
        other.resume(path)
        return found + other.losses(steps - steps // 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", default=list(CASES), help=f"of {', '.join(CASES)}")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    chosen = parser.parse_args()
    ours, theirs = (importlib.import_module(name) for name in ("flambeau", "torch"))
    failed = 0

    def report(what: str, found: list[float], wanted: list[float]) -> None:
        nonlocal failed
        apart = max(abs(a - b) / abs(b) for a, b in zip(found, wanted, strict=True))
        failed += apart > chosen.tolerance
        word = "FAIL" if apart > chosen.tolerance else "pass"
        print(f"{word}  {what:32} largest relative difference {apart:.1e}   last loss {found[-1]:.6f}", flush=True)

    for name in chosen.names:
        wanted = Run(theirs, CASES[name], chosen.steps).losses(chosen.steps)
        report(name, Run(ours, CASES[name], chosen.steps).losses(chosen.steps), wanted)
        if name != "mlp":  # its batches come from an iterator, which is not part of a checkpoint
            report(f"{name}, checkpoint from PyTorch", crossed(theirs, ours, CASES[name], chosen.steps), wanted)
            report(f"{name}, checkpoint to PyTorch", crossed(ours, theirs, CASES[name], chosen.steps), wanted)
    print(f"runs that leave PyTorch's losses: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
