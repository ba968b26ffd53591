"""The device of new tensors for a while: what `with torch.device(...)` does, as an object and as a decorator."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .._core.devices import device as _device

__all__ = ["DeviceContext", "set_device"]


class DeviceContext:
    """A block in which new tensors are made on a device.

    >>> import flambeau as torch
    >>> with DeviceContext("meta"):
    ...     torch.ones(2).device
    device(type='meta')
    """

    def __init__(self, device: Any):
        self.device = _device(device)

    def __enter__(self) -> DeviceContext:
        self.device.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.device.__exit__(*error)


def set_device(device: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: new tensors of a function are made on a device."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inside(*args: Any, **named: Any) -> Any:
            with DeviceContext(device):
                return function(*args, **named)

        return inside

    return decorate
