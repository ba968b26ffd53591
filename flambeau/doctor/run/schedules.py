"""Schedulers, clipping, accumulation: the order and the pace of what stands between backward and step."""

from __future__ import annotations

import itertools
from typing import Any

from ... import nn
from ..._observe.frames import here
from ...amp import grad_scaler
from ...optim import lr_scheduler
from .session import Session
from .training import Training, accumulation

_PER_EPOCH = ("StepLR", "MultiStepLR", "ExponentialLR")
_MEANS = ("NllLoss", "MseLoss", "BinaryCrossEntropy", "L1Loss", "SmoothL1Loss", "HuberLoss", "Mean")


class Schedules:
    """Watches schedulers' steps and clipping."""

    def __init__(self, session: Session, training: Training, modules: Any, data: Any) -> None:
        self.session, self.training, self.modules, self.data = session, training, modules, data
        self.early: dict[int, Any] = {}  # schedulers that stepped before their optimizer ever did
        self.paces: dict[int, Any] = {}
        self.clips: dict[Any, list[bool]] = {}
        self.plain: dict[Any, bool] = {}  # whether losses from a line are plain means
        self.attempts: set[int] = set()  # optimizers that a scaler stepped, perhaps in vain
        wrap = session.patches.wrap
        for name in dir(lr_scheduler):
            kind = getattr(lr_scheduler, name)
            if isinstance(kind, type) and "step" in vars(kind):
                wrap(kind, "step", self._scheduler)
        for owner in (nn.utils, nn.utils.clip_grad):
            for name in ("clip_grad_norm_", "clip_grad_value_"):
                wrap(owner, name, self._clip)
        wrap(grad_scaler.GradScaler, "step", self._scaler)
        training.before_backward.append(self._backward)

    def _scaler(self, original: Any) -> Any:
        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            self.attempts.add(id(optimizer))
            return original(scaler, optimizer, *args, **kwargs)

        return step

    def _backward(self, roots: Any, reach: Any, place: Any) -> None:
        if self.plain.get(place, True):
            edge = roots[0]._edge
            self.plain[place] = edge is not None and edge[0].name().startswith(_MEANS)

    def _scheduler(self, original: Any) -> Any:
        def step(scheduler: Any, *args: Any, **kwargs: Any) -> Any:
            if not getattr(scheduler, "_is_initial", False) and not self.session.pausing:
                self._stepping(scheduler)
                self.session.pausing += 1
                try:
                    return original(scheduler, *args, **kwargs)
                finally:
                    self.session.pausing -= 1
            return original(scheduler, *args, **kwargs)

        return step

    def _stepping(self, scheduler: Any) -> None:
        optimizer = getattr(scheduler, "optimizer", None)
        if optimizer is None:
            return
        optim, place = self.training.known(optimizer), here()
        if not optim.steps and id(optimizer) not in self.attempts:
            self.early.setdefault(id(scheduler), (place, optim))
        pace = self.paces.setdefault(id(scheduler), [scheduler, place, [], [], optim])
        pace[2].append(optim.steps)
        pace[3].append(self.data.turns)

    def _clip(self, original: Any) -> Any:
        def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.session.pausing:
                parameters = [parameters] if hasattr(parameters, "grad_fn") else list(parameters)
                ids = {id(p) for p in parameters}
                for optim in self.training.optims.values():
                    if any(id(p) in ids for p in optim.parameters()):
                        self.clips.setdefault(here(), []).append(bool(optim.backwards))
            return original(parameters, *args, **kwargs)

        return clip

    def finish(self) -> None:
        find = self.session.find
        for place, optim in self.early.values():
            if optim.steps:
                find(
                    "scheduler-before-optimizer",
                    place,
                    "The scheduler steps before its optimizer has: the first learning rate is skipped.",
                    0.95,
                )
        for place, timely in self.clips.items():
            if len(timely) >= 2 and not any(timely):
                find(
                    "clipping-order",
                    place,
                    "There are no new gradients when they are clipped here.",
                    0.9,
                    f"{len(timely)} times without a backward since the last step",
                )
        for scheduler, place, steps, turns, _ in self.paces.values():
            self._pace(scheduler, place, steps, turns)
        for optim in self.training.optims.values():
            found = accumulation(optim.rounds)
            if found is not None:
                self._accumulated(*found)

    def _pace(self, scheduler: Any, place: Any, steps: list[int], turns: list[int]) -> None:
        kind = type(scheduler).__name__
        between = [b - a for a, b in itertools.pairwise(steps)]
        if kind == "OneCycleLR" and len(between) >= 1 and min(between) >= 2 and not self.session.ended_early:
            if scheduler.last_epoch < scheduler.total_steps * 0.5:
                self.session.find(
                    "scheduler-cadence", place, "OneCycleLR counts batches, but it is stepped once per epoch.", 0.9,
                    f"it came to step {scheduler.last_epoch} of {scheduler.total_steps}",
                )  # fmt: skip
        if (
            kind in _PER_EPOCH
            and len(between) >= 4
            and max(between) <= 1
            and turns[-1] > turns[0]
            and turns[-1] - turns[0] < len(turns) // 2
        ):
            size = getattr(scheduler, "step_size", None)
            lowest = min(getattr(scheduler, "milestones", None) or [0]) if kind == "MultiStepLR" else 0
            if (
                (size is not None and size > 100)
                or lowest > 200
                or (kind == "ExponentialLR" and scheduler.gamma >= 0.99)
            ):
                return
            self.session.find(
                "scheduler-cadence", place, f"{kind} counts epochs, but it is stepped after every batch.", 0.85
            )

    def _accumulated(self, place: Any, count: int) -> None:
        if self.plain.get(place):
            self.session.find(
                "undivided-accumulation", place, f"Gradients of {count} batches are added up, but the loss is not divided by their number.", 0.75
            )  # fmt: skip
        for marks in self.modules.marks.values():
            used = [m for m in marks if m.reached and m.call.batchnorms]
            if not used:
                continue
            module, size, _ = used[0].call.batchnorms[0]
            if module.training and max(b[1] for m in used for b in m.call.batchnorms[:1]) <= 8:
                where = self.session.made.get(id(module)) or used[0].line
                self.session.find(
                    "batchnorm-with-accumulation", where, f"Batch norm sees batches of {size} while gradients of {count} batches are accumulated.", 0.8
                )  # fmt: skip
                return
