"""Gradients through calls to other processes, which are not implemented (see `distributed.rpc`): `is_available()` is False."""

from __future__ import annotations

from typing import Any

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether gradients can pass through calls to other processes: no, as there are no such calls.

    >>> import flambeau as torch
    >>> torch.distributed.autograd.is_available()
    False
    """
    return False


def _refuse(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError(
        "torch.distributed.autograd is not implemented: there are no remote calls; use loss.backward(), and "
        "torch.nn.parallel.DistributedDataParallel to train on several processes"
    )


backward = get_gradients = _refuse


class context:
    """A pass backwards through several processes; it cannot be entered."""

    __enter__ = _refuse

    def __exit__(self, *args: object) -> None:
        pass
