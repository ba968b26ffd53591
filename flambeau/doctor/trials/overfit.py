"""Can the program learn a few samples by heart? If not, something is broken between data, model, loss and optimizer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..._observe.steps import Step, value_of
from ..._tensor import Tensor
from ...drawing import curve
from .trial import Failed, Trial

_FEW = 0.05  # of the first loss that may be left


@dataclass
class Overfit:
    """What came of it: the losses, from the first to the last step."""

    samples: int
    losses: list[float]

    @property
    def first(self) -> float:
        return _mean(self.losses[:3])

    @property
    def last(self) -> float:
        return _mean(self.losses[-max(3, len(self.losses) // 20) :])

    @property
    def verdict(self) -> str:
        if not math.isfinite(self.last):
            return "diverges"
        if self.last <= _FEW * abs(self.first) or abs(self.last) < 0.02:
            return "learns"
        return "falls" if self.last < 0.6 * self.first else "stays"

    @property
    def status(self) -> int:
        return int(self.verdict in ("diverges", "stays"))

    def as_dict(self) -> dict[str, Any]:
        return {
            "samples": self.samples,
            "steps": len(self.losses),
            "first": self.first,
            "last": self.last,
            "verdict": self.verdict,
        }

    def __str__(self) -> str:
        said = {
            "learns": "The loss falls to near zero: data, model, loss and optimizer fit together.",
            "falls": "The loss falls, but not to near zero. More steps (--steps) or a higher learning rate (--find-lr) may do; dropout, "
            "weight decay or labels that contradict each other keep it up as well.",
            "stays": "The loss does not fall, though the samples are few and always the same. Something is broken: labels that belong to other "
            "inputs, a loss that takes other values than it gets, frozen or forgotten parameters, a rate that is far off (--find-lr). "
            "flambeau doctor without --overfit looks for these.",
            "diverges": "The loss is no number any more: the learning rate is too high (--find-lr), or the loss takes other values than it gets.",
        }[self.verdict]
        title = f"loss on the same {self.samples} samples"
        return f"{curve(self.losses, title=title)}\n\nfrom {self.first:.4g} to {self.last:.4g} in {len(self.losses)} steps. {said}"


def overfit(program: str, arguments: Sequence[str], module: bool, samples: int, steps: int, seconds: float) -> Overfit:
    """Runs a program on the first samples of its loaders, again and again."""
    kept: dict[int, tuple[Any, list[Any]]] = {}  # loaders, with their first batches
    losses: list[float] = []

    def same(passes: Any) -> Iterator[Any]:
        loader, begin = passes
        if id(loader) not in kept:
            kept[id(loader)] = loader, list(_first(begin(loader), samples))
        yield from kept[id(loader)][1]

    def note(step: Step) -> None:
        if "loss" in step.losses:
            losses.append(value_of(step.losses["loss"]))

    trial = Trial(steps, seconds, same)
    trial.steps.on_step.insert(0, note)
    trial.run(program, arguments, module)
    if not trial.loaders:
        raise Failed("--overfit needs a DataLoader to take the samples from, and the program uses none")
    if len(losses) < 6:
        raise Failed(f"--overfit saw only {len(losses)} training steps; {trial.ended or 'the program made no more'}")
    return Overfit(samples, losses)


def _first(batches: Any, samples: int) -> Iterator[Any]:
    """The first batches, cut to so many samples."""
    for batch in batches:
        size = _size(batch)
        yield batch if size <= samples else _cut(batch, samples, size)
        samples -= size
        if samples <= 0:
            return


def _size(batch: Any) -> int:
    if isinstance(batch, Tensor):
        return len(batch) if batch.ndim else 1
    parts = list(batch.values()) if isinstance(batch, dict) else list(batch) if isinstance(batch, (list, tuple)) else []
    return max([_size(part) for part in parts if isinstance(part, (Tensor, dict, list, tuple))], default=1)


def _cut(batch: Any, samples: int, size: int) -> Any:
    """A batch with its first samples only; parts of other lengths stay as they are."""
    if isinstance(batch, Tensor):
        return batch[:samples] if batch.ndim and len(batch) == size else batch
    if isinstance(batch, dict):
        return type(batch)({key: _cut(part, samples, size) for key, part in batch.items()})
    if isinstance(batch, (list, tuple)):
        if not any(isinstance(part, (Tensor, dict, list, tuple)) for part in batch):
            return batch[:samples] if len(batch) == size else batch
        parts = [_cut(part, samples, size) for part in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    return batch


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
