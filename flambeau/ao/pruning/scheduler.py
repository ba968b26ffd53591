"""Schedules of how sparse weights become."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

from .sparsifier import BaseSparsifier

__all__ = ["BaseScheduler", "CubicSL", "LambdaSL"]


class BaseScheduler:
    """Sets the `sparsity_level` of a sparsifier's groups from step to step; a subclass says how in `get_sl`."""

    def __init__(self, sparsifier: BaseSparsifier, last_epoch: int = -1, verbose: bool = False) -> None:
        self._check_sparsifier(sparsifier)
        self.sparsifier = sparsifier
        self.base_sl = [group["sparsity_level"] for group in sparsifier.groups]
        self.last_epoch, self.verbose = last_epoch, verbose
        plain = sparsifier.step

        @wraps(plain)
        def counted(*args: Any, **kwargs: Any) -> Any:
            self._sparsifier_steps += 1
            return plain(*args, **kwargs)

        sparsifier.step = counted  # type: ignore[method-assign]
        self._sparsifier_steps = 0
        self._step_count = 0
        self._get_sl_called_within_step = False
        self._last_sl: list[float] = []
        self.step()

    @staticmethod
    def _check_sparsifier(given: Any) -> None:
        if not isinstance(given, BaseSparsifier):
            raise TypeError(f"{type(given).__name__} is not an instance of torch.ao.pruning.BaseSparsifier")

    def get_sl(self) -> list[float]:
        """The sparsity of every group now; a subclass says how."""
        if not self._get_sl_called_within_step:
            warnings.warn(
                "To get the last sparsity level computed by the scheduler, please use `get_last_sl()`.", stacklevel=2
            )
        raise NotImplementedError(f"{type(self).__name__} does not say how sparse weights become: write get_sl")

    def get_last_sl(self) -> list[float]:
        """The sparsity of every group that was set last."""
        return self._last_sl

    def step(self, epoch: int | None = None) -> None:
        """The next step."""
        if self._step_count == 1 and self._sparsifier_steps < 1:
            warnings.warn(
                "Detected call of `scheduler.step()` before `sparsifier.step()`. Please call `sparsifier.step()` first.", stacklevel=2,
            )  # fmt: skip
        self._step_count += 1
        self.last_epoch += 1
        self._get_sl_called_within_step = True
        try:
            values = self.get_sl()
        finally:
            self._get_sl_called_within_step = False
        for group, level in zip(self.sparsifier.groups, values):
            group["sparsity_level"] = level
        self._last_sl = [group["sparsity_level"] for group in self.sparsifier.groups]
        self.sparsifier.enable_mask_update = True

    def state_dict(self) -> dict[str, Any]:
        """All that changes, without the sparsifier."""
        return {key: value for key, value in self.__dict__.items() if key != "sparsifier"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues where `state_dict` was called."""
        self.__dict__.update(state_dict)

    def __repr__(self) -> str:
        return f"{type(self).__name__} (\nSparsifier {self.sparsifier}\n    base_sl: {self.base_sl}\n)"

    def _each(self, given: Any) -> list[Any]:
        """One value for every group."""
        if isinstance(given, (list, tuple)):
            if len(given) != len(self.sparsifier.groups):
                raise ValueError(f"Expected {len(self.sparsifier.groups)} values, but got {len(given)}")
            return list(given)
        return [given] * len(self.sparsifier.groups)


class LambdaSL(BaseScheduler):
    """The first sparsity times a function of the step."""

    def __init__(
        self,
        sparsifier: BaseSparsifier,
        sl_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self._check_sparsifier(sparsifier)
        if isinstance(sl_lambda, (list, tuple)):
            if len(sl_lambda) != len(sparsifier.groups):
                raise ValueError(f"Expected {len(sparsifier.groups)} lr_lambdas, but got {len(sl_lambda)}")
            self.sl_lambdas = list(sl_lambda)
        else:
            self.sl_lambdas = [sl_lambda] * len(sparsifier.groups)
        super().__init__(sparsifier, last_epoch, verbose)

    def get_sl(self) -> list[float]:
        """The sparsity of every group now."""
        return [base * rule(self.last_epoch) for base, rule in zip(self.base_sl, self.sl_lambdas)]


class CubicSL(BaseScheduler):
    """From `init_sl` to the full sparsity along a cubic curve, from step `init_t` on, over `total_t` times `delta_t` steps.

    >>> import flambeau as torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 4))
    >>> sparsifier = torch.ao.pruning.WeightNormSparsifier(0.8)
    >>> sparsifier.prepare(model, None)
    >>> schedule = torch.ao.pruning.CubicSL(sparsifier, delta_t=1, total_t=2)
    >>> sparsifier.step(); schedule.step(); schedule.get_last_sl()
    [0.7000000000000001]
    """

    def __init__(
        self,
        sparsifier: BaseSparsifier,
        init_sl: Any = 0.0,
        init_t: Any = 0,
        delta_t: Any = 10,
        total_t: Any = 100,
        initially_zero: Any = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self._check_sparsifier(sparsifier)
        self.sparsifier = sparsifier
        self.init_sl, self.init_t, self.delta_t = self._each(init_sl), self._each(init_t), self._each(delta_t)
        self.total_t, self.initially_zero = self._each(total_t), self._each(initially_zero)
        super().__init__(sparsifier, last_epoch, verbose)

    def get_sl(self) -> list[float]:
        """The sparsity of every group now."""
        found = []
        rows = zip(self.init_sl, self.base_sl, self.init_t, self.delta_t, self.total_t, self.initially_zero)
        for first, final, start, every, steps, zero in rows:
            if zero and self.last_epoch < start:
                found.append(0.0)
                continue
            part = min(1.0, max(0, self.last_epoch - start) / (steps * every))
            found.append(final + (first - final) * (1 - part) ** 3)
        return found
