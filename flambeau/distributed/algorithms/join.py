"""`Join`: processes with different numbers of batches. Those that are done take part in the calls of the others."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from ..._ops.registry import ops
from .._collectives import all_reduce

__all__ = ["Join", "JoinHook", "Joinable"]

_MANY = 1000  # steps that others are ahead before a warning


class JoinHook:
    """What a process does while others still work."""

    def main_hook(self) -> None:
        """Called instead of each step of the others."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called when all are done."""


class _JoinConfig(NamedTuple):
    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool

    @staticmethod
    def construct_disabled_join_config() -> _JoinConfig:
        return _JoinConfig(False, False, False)


class Joinable(ABC):
    """Objects that can take part in `Join`. Their classes call `Join.notify_join_context` once in each step."""

    @abstractmethod
    def __init__(self) -> None:
        super().__init__()
        self._join_config = _JoinConfig.construct_disabled_join_config()

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a process that is done does instead of a step."""

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """The device of the tensors that tell who is done."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """The group of the processes that wait for each other."""


class Join:
    """A `with` block in which processes may have different numbers of batches.

    >>> import flambeau as torch
    >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    >>> with Join([model]):
    ...     for x in torch.ones(3, 1, 2):
    ...         model(x).sum().backward()
    >>> torch.distributed.destroy_process_group()
    """

    def __init__(
        self, joinables: list[Any], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: Any
    ):
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables, self._enable, self._throw = joinables, enable, throw_on_early_termination
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        for i, joinable in enumerate(joinables):
            joinable._join_config = _JoinConfig(enable, throw_on_early_termination, i == 0)
        group = joinables[0].join_process_group
        if any(joinable.join_process_group is not group for joinable in joinables):
            raise ValueError("Using join context manager with multiple process groups")
        self._group, self._device = group, joinables[0].join_device

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if not self._enable or error is not None:
            return
        last, steps = True, 0
        while self._count_working():
            if self._throw:
                flag = ops.ones(1, device=self._device)
                all_reduce(flag, group=self._group)
                raise RuntimeError(f"Rank {self._group.rank()} exhausted all inputs.")
            for hook in self._hooks:
                hook.main_hook()
            last, steps = False, steps + 1
            if steps == _MANY:
                warnings.warn(
                    f"Detected uneven input skew of greater than {_MANY}: rank {self._group.rank()} has at least so many "
                    "fewer inputs than others, which wastes its time; give the processes equally many",
                    stacklevel=2,
                )
        for hook in self._hooks:
            hook.post_hook(last)

    def _count_working(self) -> int:
        count = ops.zeros(1, device=self._device)
        all_reduce(count, group=self._group)
        return int(count.item())

    @staticmethod
    def notify_join_context(joinable: Any) -> Any:
        """Tells processes that are done that this one still works; the work of that call if the object is the first."""
        if not hasattr(joinable, "_join_config"):
            raise AssertionError(
                f"Check that the {type(joinable)} constructor calls the ``Joinable`` constructor: it has no join config"
            )
        config = joinable._join_config
        if not config.is_first_joinable or not config.enable:
            return None
        device, group = joinable.join_device, joinable.join_process_group
        work = all_reduce(ops.ones(1, device=device), group=group, async_op=True)
        if config.throw_on_early_termination:
            flag = ops.zeros(1, device=device)
            all_reduce(flag, group=group)
            if flag.item():
                raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")
        return work
