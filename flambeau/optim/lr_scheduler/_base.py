"""What all learning-rate schedules share: counting steps, setting rates, saving."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import ref

from ..._core.steps import python_step
from ..._errors.frames import warn_user
from ..._tensor import Tensor
from ..optimizer import Optimizer, closure_first

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` is deprecated: call `scheduler.step()` once for each epoch. With an "
    "epoch, schedules that have a closed form use it."
)


def copied(value: Any) -> Any:
    """A setting that later changes in place do not reach."""
    return value.clone() if isinstance(value, Tensor) else value


def set_value(group: dict[str, Any], key: str, value: Any) -> None:
    """Sets a group's setting; a tensor keeps its place in memory."""
    old = group[key]
    if isinstance(old, Tensor):
        old.fill_(value.item() if isinstance(value, Tensor) and value.ndim else value)
    else:
        group[key] = copied(value)


def for_groups(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value for each group, from one for all of them or a list; tensors are copied, as they may change later."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [copied(value) for _ in range(count)]
    if len(value) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. "
            f"{name} has {len(value)} values, param_groups has {count}."
        )
    return [copied(v) for v in value]


def check_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def _note_steps(optimizer: Optimizer) -> None:
    """Makes the optimizer remember that it made a step, for the warning about the wrong order of calls."""
    step = optimizer.step
    if hasattr(step, "_wrapped_by_lr_sched"):
        return
    bound = isinstance(step, types.MethodType)
    function, reference = step.__func__ if bound else step, ref(optimizer)  # the optimizer must not hold itself

    @functools.wraps(function)
    def noted(*args: Any, **kwargs: Any) -> Any:
        owner: Any = reference()
        owner._opt_called = True
        return function(owner, *args, **kwargs) if bound else function(*args, **kwargs)

    wrapper = python_step(noted, (lambda args, named: closure_first(reference(), args, named)) if bound else None)
    wrapper._wrapped_by_lr_sched = True
    optimizer.step = wrapper  # type: ignore[method-assign]
    optimizer._opt_called = False  # type: ignore[attr-defined]


def without_state(value: Any) -> dict[str, Any] | None:
    """What can be saved of a function in a schedule: the attributes of a callable object, nothing of a function."""
    return None if value is None or isinstance(value, types.FunctionType) else dict(vars(value))


class LRScheduler:
    """Base of schedules: `step` counts and sets every group's learning rate to what `get_lr` gives.

    Subclasses write `get_lr`, from the group's present rate where they can, so that schedules can be combined.
    """

    optimizer: Optimizer
    base_lrs: list[Any]
    last_epoch: int
    _last_lr: list[Any]
    _get_lr_called_within_step = False
    _is_initial = False
    _unsaved: tuple[str, ...] = ("optimizer",)

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with last_epoch >= 0. "
                    "Load the optimizer's state first, or begin with last_epoch=-1"
                )
        self.base_lrs = [copied(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        _note_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        """Sets the rates of the first epoch."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key not in self._unsaved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates that the last step set, one for each group."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The rates of epoch `last_epoch`."""
        raise NotImplementedError

    @python_step
    def step(self, epoch: int | None = None) -> None:
        """Goes on to the next epoch; call it after the optimizer's step."""
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is not None:
            warn_user(EPOCH_DEPRECATION_WARNING)
        self._update_lr(epoch)

    def _check_order(self) -> None:
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warn_user(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization; make "
                "sure that it is called before `lr_scheduler.step()` (see how-to-adjust-learning-rate in PyTorch's guide)",
            )  # fmt: skip
        elif not getattr(self.optimizer, "_opt_called", False):
            warn_user(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`: in this order the first value of the "
                "learning rate schedule is skipped (see how-to-adjust-learning-rate in PyTorch's guide)",
            )  # fmt: skip

    def _update_lr(self, epoch: int | None = None) -> None:
        with self._within_step():
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                closed: Callable[[], list[Any]] = getattr(self, "_get_closed_form_lr", self.get_lr)
                values = closed()
        self._set_rates(values)

    def _set_rates(self, values: list[Any]) -> None:
        for group, lr in zip(self.optimizer.param_groups, values):
            set_value(group, "lr", lr)
        self._last_lr = self._rates()

    def _rates(self) -> list[Any]:
        return [copied(group["lr"]) for group in self.optimizer.param_groups]

    @contextmanager
    def _within_step(self) -> Iterator[None]:
        self._get_lr_called_within_step = True
        try:
            yield
        finally:
            self._get_lr_called_within_step = False

    def _warn_outside(self) -> None:
        """`get_lr` gives the next rate, which is not what most callers want."""
        if not self._get_lr_called_within_step:
            warn_user(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
            )  # fmt: skip


class _LRScheduler(LRScheduler):
    """The former name of `LRScheduler`."""
