"""Averages of a model's weights over training, and the schedule that goes with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any, Literal

from .._autograd.modes import no_grad
from .._core.dtypes import FLOATING, int64
from .._core.steps import python_step
from .._ops.registry import ops
from .._tensor import Tensor
from ..nn.modules.module import Module
from .lr_scheduler import LRScheduler
from .lr_scheduler._base import for_groups
from .optimizer import Optimizer

__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn",
    "update_bn",
]  # fmt: skip


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """An exponential moving average of lists of parameters, for `AveragedModel(multi_avg_fn=…)`."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param_list: list[Tensor], current_param_list: list[Tensor], _: Any) -> None:
        for mean, current in zip(ema_param_list, current_param_list):
            if mean.dtype.category >= FLOATING:
                mean.lerp_(current.to(mean.dtype), 1 - decay)
            else:
                mean.copy_(mean * decay + current * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """An equal average of lists of parameters, for `AveragedModel(multi_avg_fn=…)`."""

    @no_grad()
    def swa_update(averaged_param_list: list[Tensor], current_param_list: list[Tensor], num_averaged: Any) -> None:
        share = 1 / (int(num_averaged) + 1)
        for mean, current in zip(averaged_param_list, current_param_list):
            if mean.dtype.category >= FLOATING:
                mean.lerp_(current.to(mean.dtype), share)
            else:
                mean.copy_(mean + (current - mean) * share)

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Tensor]:
    """An exponential moving average of one parameter, for `AveragedModel(avg_fn=…)`."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return ema_param * decay + current_param * (1 - decay)

    return ema_update


def get_swa_avg_fn() -> Callable[..., Tensor]:
    """An equal average of one parameter, for `AveragedModel(avg_fn=…)`."""

    @no_grad()
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the original's; `update_parameters` takes in new values.

    `avg_fn(mean, value, count)` gives a new mean, `multi_avg_fn` changes lists of means; by default all values count
    the same. With `use_buffers`, buffers are averaged too, otherwise they are copied.

    >>> import flambeau as torch
    >>> model = torch.nn.Linear(1, 1)
    >>> mean = torch.optim.swa_utils.AveragedModel(model)
    >>> mean.update_parameters(model); int(mean.n_averaged)
    1
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[[Tensor, Tensor, Tensor | int], Tensor] | None = None,
        multi_avg_fn: Callable[[Any, Any, Tensor | int], None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", ops.tensor(0, dtype=int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The averaged model's result."""
        return self.module(*args, **kwargs)

    def _values(self, model: Module) -> list[Tensor]:
        buffers = list(model.buffers()) if self.use_buffers else []
        return [t.detach() for t in [*model.parameters(), *buffers]]

    @no_grad()
    @python_step
    def update_parameters(self, model: Module) -> None:
        """Takes the parameters of `model` into the average."""
        means = self._values(self.module)
        values = [v.to(m.device) if v.device != m.device else v for v, m in zip(self._values(model), means)]
        if self.n_averaged == 0:
            for mean, value in zip(means, values):
                mean.copy_(value)
        elif self.avg_fn is not None:
            for mean, value in zip(means, values):
                mean.copy_(self.avg_fn(mean, value, self.n_averaged.to(mean.device)))
        else:
            (self.multi_avg_fn or get_swa_multi_avg_fn())(means, values, self.n_averaged)
        if not self.use_buffers:
            for ours, theirs in zip(self.module.buffers(), model.buffers()):
                ours.detach().copy_(theirs.detach().to(ours.device))
        self.n_averaged += 1


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Computes the running statistics of batch normalisation again, in one pass over the data.

    `loader` gives batches, or lists and tuples that begin with them.
    """
    from ..nn.modules.batchnorm import _BatchNorm  # layers are loaded only when they are looked for

    momenta = {}
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    training = model.training
    model.train()
    for module in momenta:
        module.momentum = None  # a plain average over all batches
    for batch in loader:
        if isinstance(batch, (list, tuple)):
            batch = batch[0]
        model(batch if device is None else batch.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(training)


def _anneal_cos(t: float) -> float:
    return (1 - math.cos(math.pi * t)) / 2


def _anneal_linear(t: float) -> float:
    return t


class SWALR(LRScheduler):
    """Goes from the present rate to `swa_lr` in `anneal_epochs` epochs and stays there.

    >>> import flambeau as torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    >>> scheduler = torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.5, anneal_epochs=2)
    >>> for _ in range(2):
    ...     optimizer.step(); scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    _unsaved = ("optimizer", "anneal_func")

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float,
        anneal_epochs: int = 10,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        last_epoch: int = -1,
    ) -> None:
        for rate, group in zip(for_groups("swa_lr", optimizer, swa_lr), optimizer.param_groups):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_strategy = anneal_strategy
        self._choose()
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _choose(self) -> None:
        self.anneal_func = _anneal_cos if self._anneal_strategy == "cos" else _anneal_linear

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave."""
        super().load_state_dict(state_dict)
        self._choose()

    def _share(self, number: int) -> float:
        return self.anneal_func(max(0, min(1, number / max(1, self.anneal_epochs))))

    def get_lr(self) -> list[Any]:
        """The rates of epoch `last_epoch`."""
        self._warn_outside()
        number = self._step_count - 1
        if self.anneal_epochs == 0:
            number = max(1, number)
        before, now = self._share(number - 1), self._share(number)
        rates = []
        for group in self.optimizer.param_groups:
            lr, target = group["lr"], group["swa_lr"]
            start = target if before == 1 else (lr - before * target) / (1 - before)
            rates.append(target * now + start * (1 - now))
        return rates
