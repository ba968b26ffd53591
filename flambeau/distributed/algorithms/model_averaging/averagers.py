"""When the parameters of the processes are averaged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from ..._groups import ProcessGroup, group
from .utils import average_parameters_or_parameter_groups

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager(ABC):
    """Counts the steps of a training and averages parameters at some of them."""

    def __init__(self, process_group: ProcessGroup | None = None):
        self.process_group = process_group if process_group is not None else group.WORLD
        self.step = 0

    @abstractmethod
    def average_parameters(self, params: Iterable[Any]) -> None:
        """Called after each step of the optimizer."""


class PeriodicModelAverager(ModelAverager):
    """Averages at every `period`-th step, after some steps of warming up.

    Parameters without gradients stay as they are.
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: ProcessGroup | None = None):
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Averages parameters, or those of an optimizer's groups, if it is their step."""
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
