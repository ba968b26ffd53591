"""Which learning rate suits: it is raised at every step, from far too low to far too high, and the loss tells."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..._observe.steps import Step, value_of
from ...drawing import curve
from ...drawing.pictures import line_chart
from .trial import Enough, Failed, Trial

LOWEST, HIGHEST = 1e-6, 10.0
_SMOOTH = 0.85


@dataclass
class Rates:
    """Rates that were tried, with the losses that they led to; `own` is the program's."""

    rates: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    own: float | None = None
    kind: str = ""
    drawn: str = ""
    status = 0

    def smoothed(self) -> list[float]:
        """Losses without the noise of batches, and without a bias to the first ones."""
        mean, made = 0.0, []
        for k, loss in enumerate(self.losses, 1):
            mean = _SMOOTH * mean + (1 - _SMOOTH) * loss
            made.append(mean / (1 - _SMOOTH**k))
        return made

    def shown(self) -> list[float]:
        """The smoothed losses without the end of a curve that grows out of sight."""
        smooth = self.smoothed()
        most = max(smooth[0], smooth[0] + (smooth[0] - min(smooth)) / 2)
        return [min(loss, most) for loss in smooth]

    @property
    def suggested(self) -> float | None:
        """Where the loss falls steepest, at most a third of the rate with the lowest loss; None if it never falls."""
        smooth = self.smoothed()
        low = min(range(len(smooth)), key=smooth.__getitem__)
        reach = max(3, len(smooth) // 20)
        slopes = {i: smooth[min(i + reach, low)] - smooth[max(i - reach, 0)] for i in range(low)}
        if not slopes or smooth[low] > smooth[0] - 0.02 * abs(smooth[0]):
            return None
        steepest = min(slopes, key=slopes.__getitem__)
        return min(self.rates[steepest], self.rates[low] / 3)

    def draw(self, path: str) -> None:
        """Draws the curve into an SVG file."""
        marks = {"suggested": self.suggested, "the program's": self.own}
        inside = {
            name: rate for name, rate in marks.items() if rate is not None and self.rates[0] <= rate <= self.rates[-1]
        }
        line_chart(self.rates, self.losses, self.shown(), "learning rate", "loss", inside).save(path)
        self.drawn = path

    def as_dict(self) -> dict[str, Any]:
        return {
            "rates": self.rates,
            "losses": self.losses,
            "suggested": self.suggested,
            "own": self.own,
            "svg": self.drawn,
        }

    def __str__(self) -> str:
        title = f"loss while the learning rate of {self.kind} rises from {self.rates[0]:.1e} to {self.rates[-1]:.1e}"
        lines = [
            curve(
                self.shown(),
                title=title,
                under=f"{self.rates[0]:.1e} to {self.rates[-1]:.1e}, by a factor at each step",
            ),
            "",
        ]
        best = self.suggested
        if best is None:
            lines.append("No rate makes the loss fall: --overfit, or flambeau doctor alone, may say why.")
        else:
            lines.append(f"suggested: {best:.1e}, where the loss falls steepest")
            if self.own:
                apart = self.own / best
                fits = (
                    "fits"
                    if 1 / 5 <= apart <= 5
                    else f"is {apart:.0f} times higher"
                    if apart > 1
                    else f"is {1 / apart:.0f} times lower"
                )
                lines.append(f"the program begins with {self.own:.1e}, which {fits}")
        if self.drawn:
            lines.append(f"drawn in {self.drawn}")
        return "\n".join(lines)


def _own(group: dict[str, Any]) -> float:
    """The rate that the program means for a group: the highest of a schedule that knows it."""
    return float(next(group[key] for key in ("max_lr", "initial_lr", "lr") if key in group))


def find_rate(program: str, arguments: Sequence[str], module: bool, steps: int, seconds: float) -> Rates:
    """Runs a program while its learning rate rises; ends it when the loss has grown out of bounds."""
    found = Rates()
    factor = (HIGHEST / LOWEST) ** (1 / max(1, steps - 1))
    first: list[Any] = []  # the optimizer that is followed, with the rates of its groups

    def again(passes: Any) -> Iterator[Any]:
        loader, begin = passes
        yield from begin(loader)

    def raise_rate(optimizer: Any) -> None:
        groups = optimizer.param_groups
        if not first:
            first.append((optimizer, [_own(group) for group in groups]))
            found.own, found.kind = first[0][1][0], type(optimizer).__name__
        if first[0][0] is optimizer:
            rate, own = LOWEST * factor ** len(found.losses), first[0][1]
            for group, one in zip(groups, own):
                group["lr"] = rate * (one / own[0] if own[0] else 1.0)  # groups keep their proportions

    def note(step: Step) -> None:
        if not first or step.optimizer is not first[0][0] or not step.losses:
            return
        loss = sum(value_of(values) for values in step.losses.values())
        if not math.isfinite(loss):
            raise Enough
        found.rates.append(LOWEST * factor ** len(found.losses))
        found.losses.append(loss)
        smooth = found.smoothed()
        if len(smooth) > 10 and smooth[-1] > 4 * abs(min(smooth)) + 1e-12 and smooth[-1] > smooth[0]:
            raise Enough

    trial = Trial(steps, seconds, again)
    trial.steps.before_step.append(raise_rate)
    trial.steps.on_step.insert(0, note)
    trial.run(program, arguments, module)
    if len(found.losses) < 10:
        raise Failed(
            f"--find-lr saw only {len(found.losses)} training steps; {trial.ended or 'the program made no more'}"
        )
    return found
