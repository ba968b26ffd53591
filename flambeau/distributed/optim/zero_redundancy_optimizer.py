"""`ZeroRedundancyOptimizer`: each process keeps the state of some parameters, updates them and gives them to the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._autograd.modes import enable_grad
from ..._tensor import Tensor
from ...optim import Optimizer
from .._groups import current, is_initialized
from .._objects import gather_object
from .._states import broadcast_all
from ..algorithms.join import Joinable, JoinHook

__all__ = ["ZeroRedundancyOptimizer"]


class _Uneven(JoinHook):
    """A process without inputs takes part in the steps of the others."""

    def __init__(self, zero: ZeroRedundancyOptimizer):
        self.zero = zero
        super().__init__()

    def main_hook(self) -> None:
        self.zero.step()


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """An optimizer whose state is divided among the processes, whole parameters to each.

    >>> import flambeau as torch
    >>> w = torch.ones(2, requires_grad=True)
    >>> optimizer = ZeroRedundancyOptimizer([w], optimizer_class=torch.optim.SGD, lr=0.5)
    >>> w.sum().backward(); optimizer.step(); w
    tensor([0.5000, 0.5000], requires_grad=True)
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ):
        if overlap_with_ddp:
            raise NotImplementedError("ZeroRedundancyOptimizer: overlap_with_ddp is not implemented; leave it False")
        self.process_group = current(process_group) if is_initialized() or process_group is not None else None
        self.rank, self.world_size = (
            (self.process_group.rank(), self.process_group.size()) if self.process_group is not None else (0, 1)
        )
        self.parameters_as_bucket_view, self._class, self._options = (
            parameters_as_bucket_view,
            optimizer_class,
            defaults,
        )
        self._owners: dict[Tensor, int] = {}
        self._loads = [0] * self.world_size
        self._all_states: list[Any] = []
        self.initialized = False
        Optimizer.__init__(self, params, defaults)
        self._join_config: Any = None
        Joinable.__init__(self)
        self._make()
        self.initialized = True

    def _assign(self, group: dict[str, Any]) -> None:
        """Gives each parameter to the process with the least to do; the largest first."""
        for p in sorted(group["params"], key=lambda p: p.numel(), reverse=True):
            owner = self._loads.index(min(self._loads))
            self._owners[p] = owner
            self._loads[owner] += p.numel()

    def _own(self, group: dict[str, Any]) -> list[Tensor]:
        return [p for p in group["params"] if self._owners[p] == self.rank]

    def _make(self) -> None:
        self._owners, self._loads = {}, [0] * self.world_size
        for group in self.param_groups:
            self._assign(group)
        groups = [{**group, "params": self._own(group)} for group in self.param_groups]
        self._places = [i for i, group in enumerate(groups) if group["params"]]
        self.optim = self._class([groups[i] for i in self._places], **self._options) if self._places else None
        for i, inner in zip(self._places, self.optim.param_groups if self.optim is not None else ()):
            for key, value in inner.items():
                self.param_groups[i].setdefault(key, value)
        if self.optim is not None:
            self.state = self.optim.state
            self.defaults = self.optim.defaults

    def step(self, closure: Callable[[], Any] | None = None, **options: Any) -> Any:
        """One step: each process updates its parameters, and all get them."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        if self.optim is not None:
            for i, inner in zip(self._places, self.optim.param_groups):
                inner.update({key: value for key, value in self.param_groups[i].items() if key != "params"})
            self.optim.step(**options)
            for i, inner in zip(self._places, self.optim.param_groups):
                self.param_groups[i].update({key: value for key, value in inner.items() if key != "params"})
        if self.process_group is not None:
            for rank in range(self.world_size):
                broadcast_all([p for p, owner in self._owners.items() if owner == rank], self.process_group, rank)
        return loss

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """More parameters; states that there are stay with their processes."""
        super().add_param_group(param_group)
        if self.initialized:
            group = self.param_groups[-1]
            self._assign(group)
            own = self._own(group)
            if own and self.optim is None:
                self._places = [len(self.param_groups) - 1]
                self.optim = self._class([{**group, "params": own}], **self._options)
                self.state = self.optim.state
            elif own:
                self._places.append(len(self.param_groups) - 1)
                self.optim.add_param_group({**group, "params": own})

    # -- states --

    def _numbers(self) -> dict[Tensor, int]:
        return {p: i for i, p in enumerate(p for group in self.param_groups for p in group["params"])}

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Brings the states of all processes to process `to`, which can then call `state_dict`."""
        numbers = self._numbers()
        own = {numbers[p]: state for p, state in self.optim.state.items()} if self.optim is not None else {}
        if self.process_group is None:
            self._all_states = [own]
            return
        found: Any = [None] * self.world_size if self.rank == to else None
        gather_object(own, found, group=self.process_group, group_dst=to)
        self._all_states = found or []

    def state_dict(self) -> dict[str, Any]:
        """The state of an optimizer of all parameters, in the process to which it was brought."""
        if self.world_size == 1:
            self.consolidate_state_dict()
        if not self._all_states:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to="
                f"{self.rank})` on all ranks beforehand if you meant to save the global state."
            )
        numbers = self._numbers()
        groups = [{**group, "params": [numbers[p] for p in group["params"]]} for group in self.param_groups]
        state = {number: values for states in self._all_states for number, values in states.items()}
        return {"state": dict(sorted(state.items())), "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes the state of an optimizer of all parameters; each process keeps its part."""
        given = state_dict["param_groups"]
        if len(given) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        for own, new in zip(self.param_groups, given):
            own.update({key: value for key, value in new.items() if key != "params"})
        if self.optim is None:
            return
        numbers = self._numbers()
        inner = self.optim.state_dict()
        mine = [p for group in self.optim.param_groups for p in group["params"]]
        state = {i: state_dict["state"][numbers[p]] for i, p in enumerate(mine) if numbers[p] in state_dict["state"]}
        groups = [
            {**{k: v for k, v in given[place].items() if k != "params"}, "params": held["params"]}
            for place, held in zip(self._places, inner["param_groups"])
        ]
        self.optim.load_state_dict({"state": state, "param_groups": groups})
        self.state = self.optim.state

    # -- uneven inputs --

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a process does that has no more inputs."""
        return _Uneven(self)

    @property
    def join_device(self) -> Any:
        """The device of the parameters."""
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> Any:
        """The group of the processes."""
        return self.process_group
