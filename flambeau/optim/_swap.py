"""An optimizer that works for a while on other parameters with another state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .._tensor import Tensor
from .optimizer import Optimizer


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Within the block, the optimizer has the given parameters (in the order of its own) and `state_dict`.

    States are used as they are, so steps show in the tensors of `swapin_optim_state`; at the end the optimizer has its
    own parameters, state and settings again.

    >>> import flambeau as torch
    >>> p, q = torch.nn.Parameter(torch.ones(1)), torch.zeros(1)
    >>> p.grad = q.grad = torch.ones(1)
    >>> optimizer = torch.optim.Adam([p], lr=0.5)
    >>> optimizer.step()
    >>> with torch.optim.swap_in_optimizer_params_and_state(optimizer, {"p": q}, optimizer.state_dict()):
    ...     optimizer.step()
    >>> p.item(), round(q.item(), 4)
    (0.5, -0.5)
    """
    if not optimizer.state:
        raise RuntimeError("swap_in_optimizer_params_and_state requires initialized optimizer state.")
    states, groups = swapin_optim_state.get("state"), swapin_optim_state.get("param_groups")
    if not isinstance(states, dict):
        raise RuntimeError(
            "swap_in_optimizer_params_and_state requires swapin_optim_state['state'] to be a dict mapping packed parameter "
            f"ids to per-param state dicts, got {type(states).__name__}."
        )
    if groups is None or len(groups) != len(optimizer.param_groups):
        raise RuntimeError("swapin_optim_state has a different number of parameter groups than the live optimizer.")
    given = iter(swapin_parameters.values())
    state: defaultdict[Tensor, Any] = defaultdict(dict)
    own = optimizer.state, [dict(group) for group in optimizer.param_groups]
    try:
        for group, new in zip(optimizer.param_groups, groups):
            params = [next(given) for _ in group["params"]]
            for p, number in zip(params, new["params"]):
                state[p] = dict(states.get(number, {}))
            group.clear()
            group.update(new)
            group["params"] = params
        optimizer.state = state
        yield
    finally:
        optimizer.state = own[0]
        for group, kept in zip(optimizer.param_groups, own[1]):
            group.clear()
            group.update(kept)
