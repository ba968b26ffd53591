"""Schedules that go up and down: cycles, one cycle, restarts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import cos, floor, log, pi
from typing import Any, Literal

from ..._core.steps import python_step
from ..optimizer import Optimizer
from ._base import LRScheduler, check_optimizer, for_groups, set_value, without_state


def _check_momentum(optimizer: Optimizer) -> bool:
    """Whether the momentum is `betas[0]`; an optimizer without any is refused."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
    return "betas" in optimizer.defaults


def _set_momentum(group: dict[str, Any], value: float, as_beta: bool) -> None:
    if as_beta:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


def _constant(x: float) -> float:
    return 1.0


def _halving(x: float) -> float:
    return 1 / 2.0 ** (x - 1)


def _exp_range(gamma: float, x: float) -> float:
    return gamma**x


class CyclicLR(LRScheduler):
    """The rate goes from `base_lr` to `max_lr` and back (Smith, 2017); the momentum goes the other way.

    >>> import flambeau as torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1, momentum=0.9)
    >>> scheduler = torch.optim.lr_scheduler.CyclicLR(optimizer, base_lr=0.0, max_lr=1.0, step_size_up=2)
    >>> optimizer.step(); scheduler.step(); scheduler.get_last_lr()
    [0.5]
    """

    _unsaved = ("optimizer", "_scale_fn_ref")

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: Literal["cycle", "iterations"] = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = for_groups("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups):
                set_value(group, "lr", lr)
        self.max_lrs = for_groups("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode, self.gamma = mode, gamma
        self._scale_fn_custom, self.scale_mode = scale_fn, scale_mode
        self._init_scale_fn()
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _check_momentum(optimizer)
            self.base_momentums = for_groups("base_momentum", optimizer, base_momentum)
            self.max_momentums = for_groups("max_momentum", optimizer, max_momentum)
            if last_epoch == -1:
                for most, least, group in zip(self.max_momentums, self.base_momentums, optimizer.param_groups):
                    _set_momentum(group, most, self.use_beta1)
                    group["max_momentum"], group["base_momentum"] = most, least
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _init_scale_fn(self) -> None:
        if self._scale_fn_custom is not None:
            return
        self.scale_mode = "iterations" if self.mode == "exp_range" else "cycle"
        if self.mode == "exp_range":
            self._scale_fn_ref: Any = partial(_exp_range, self.gamma)
        else:
            self._scale_fn_ref = _halving if self.mode == "triangular2" else _constant

    def scale_fn(self, x: float) -> float:
        """How high cycle (or iteration) number x goes."""
        return (self._scale_fn_custom or self._scale_fn_ref)(x)

    def get_lr(self) -> list[Any]:
        """The rates of iteration `last_epoch`; sets the momentum too."""
        self._warn_outside()
        cycle = floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for least, most, group in zip(self.base_momentums, self.max_momentums, self.optimizer.param_groups):
                _set_momentum(group, most - (most - least) * height * scale, self.use_beta1)
        return [base + (most - base) * height * scale for base, most in zip(self.base_lrs, self.max_lrs)]

    def state_dict(self) -> dict[str, Any]:
        """The state; a scale function is saved only if it is an object with attributes."""
        state = super().state_dict()
        state["_scale_fn_custom"] = without_state(self._scale_fn_custom)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave; attributes of a callable scale function are restored."""
        state = dict(state_dict)
        kept = state.pop("_scale_fn_custom")
        if kept is not None:
            self._scale_fn_custom.__dict__.update(kept)
        super().load_state_dict(state)
        self._init_scale_fn()


def _positive(name: str, value: Any) -> int:
    if value <= 0 or not isinstance(value, int):
        raise ValueError(f"Expected positive integer {name}, but got {value}")
    return value


def _anneal_cos(start: Any, end: Any, share: float) -> Any:
    return end + (start - end) / 2.0 * (cos(pi * share) + 1)


def _anneal_linear(start: Any, end: Any, share: float) -> Any:
    return (end - start) * share + start


class OneCycleLR(LRScheduler):
    """One cycle: up to `max_lr`, then down to far below the start (Smith and Topin, 2018); steps are batches.

    >>> import flambeau as torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1, momentum=0.9)
    >>> scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10)
    >>> for _ in range(2):
    ...     optimizer.step(); scheduler.step()
    >>> [round(lr, 4) for lr in scheduler.get_last_lr()]
    [1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        if total_steps is not None:
            self.total_steps = _positive("total_steps", total_steps)
        elif epochs is not None and steps_per_epoch is not None:
            self.total_steps = _positive("epochs", epochs) * _positive("steps_per_epoch", steps_per_epoch)
        else:
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        self._schedule_phases = self._phases(pct_start, three_phase)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        if last_epoch == -1:
            for most, group in zip(for_groups("max_lr", optimizer, max_lr), optimizer.param_groups):
                group["initial_lr"], group["max_lr"] = most / div_factor, most
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _check_momentum(optimizer)
            most_each = for_groups("max_momentum", optimizer, max_momentum)
            least_each = for_groups("base_momentum", optimizer, base_momentum)
            if last_epoch == -1:
                for m, least, group in zip(most_each, least_each, optimizer.param_groups):
                    _set_momentum(group, m, self.use_beta1)
                    group["max_momentum"], group["base_momentum"] = m, least
        super().__init__(optimizer, last_epoch)

    def _phases(self, pct_start: float, three_phase: bool) -> list[dict[str, Any]]:
        peak = float(pct_start * self.total_steps) - 1
        steps = [
            (peak, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
            (self.total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum"),
        ]
        if three_phase:
            again = float(2 * pct_start * self.total_steps) - 2
            steps[1:] = [
                (again, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                (self.total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        names = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
        return [dict(zip(names, step)) for step in steps]

    _annealing_cos, _annealing_linear = staticmethod(_anneal_cos), staticmethod(_anneal_linear)

    def _anneal(self, start: Any, end: Any, share: float) -> Any:
        if not hasattr(self, "_anneal_func_type"):  # old checkpoints hold the function
            return self.anneal_func(start, end, share)
        return (_anneal_cos if self._anneal_func_type == "cos" else _anneal_linear)(start, end, share)

    anneal_func: Callable[[Any, Any, float], Any]

    def get_lr(self) -> list[Any]:
        """The rates of step `last_epoch`; sets the momentum too."""
        self._warn_outside()
        number = self.last_epoch
        if number > self.total_steps:
            raise ValueError(f"Tried to step {number} times. The specified number of total steps is {self.total_steps}")
        start = 0.0
        for phase in self._schedule_phases[:-1]:
            if number <= phase["end_step"]:
                break
            start = phase["end_step"]
        else:
            phase = self._schedule_phases[-1]
        share = (number - start) / (phase["end_step"] - start)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._anneal(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                momentum = self._anneal(group[phase["start_momentum"]], group[phase["end_momentum"]], share)
                _set_momentum(group, momentum, self.use_beta1)
        return rates


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine down to `eta_min` in T_0 epochs, then again from the top in T_0 * T_mult, and so on.

    `step` takes fractions of epochs too, for steps within an epoch.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = self.T_i = T_0
        self.T_mult, self.eta_min = T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates at `T_cur` epochs after the last restart."""
        self._warn_outside()
        height = (1 + cos(pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    @python_step
    def step(self, epoch: float | None = None) -> None:
        """Goes on to the next epoch, or to the given one."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        elif epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            restarts = int(log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**restarts - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**restarts
        self.last_epoch = floor(epoch)
        with self._within_step():
            self._set_rates(self.get_lr())
