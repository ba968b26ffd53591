"""Where tensors live: `device` objects and the current default device."""

from __future__ import annotations

import threading
from typing import Any

TYPES = (
    "cpu", "cuda", "meta", "mps", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla",
    "lazy", "vulkan", "hpu", "mtia", "privateuseone", "ipu",
)  # fmt: skip


class device:
    """A kind of memory and, for accelerators, its number.

    >>> import flambeau as torch
    >>> torch.device("cuda:1").index
    1
    """

    __slots__ = ("index", "type")
    type: str
    index: int | None

    def __init__(self, type: Any = None, index: int | None = None, **named: Any):
        if "device" in named:
            type = named.pop("device")
        if isinstance(type, device):
            type, index = type.type, type.index if index is None else index
        elif isinstance(type, bool):
            raise TypeError("device(): argument 'type' must be str, not bool")
        elif isinstance(type, int):
            if type < 0:
                raise RuntimeError("Device index must not be negative")
            type, index = "cuda", type
        elif isinstance(type, str):
            kind, colon, number = type.partition(":")
            if colon:
                if index is not None:
                    raise RuntimeError(
                        f"type (string) must not include an index because index was passed explicitly: {type}"
                    )
                if not number.isdecimal() or (len(number) > 1 and number[0] == "0"):
                    raise RuntimeError(f"Invalid device string: '{type}'")
                index = int(number)
            if kind not in TYPES:
                raise RuntimeError(f"Expected one of {', '.join(TYPES)} device type at start of device string: {type}")
            type = kind
        else:
            raise TypeError(f"device(): argument 'type' (position 1) must be str, not {type.__class__.__name__}")
        self.type, self.index = type, index

    def __repr__(self) -> str:
        return (
            f"device(type='{self.type}')" if self.index is None else f"device(type='{self.type}', index={self.index})"
        )

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and self.type == other.type and self.index == other.index

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self.type,) if self.index is None else (self.type, self.index)

    def __enter__(self) -> device:
        stack = _local.__dict__.setdefault("stack", [])
        stack.append(_local.device)  # None where nobody has set one: factories then take their short ways
        _local.device = self
        return self

    def __exit__(self, *error: Any) -> None:
        _local.device = _local.stack.pop()


class _Local(threading.local):
    device: device | None = None


CPU = device("cpu")
META = device("meta")
_local = _Local()


def get_default_device() -> device:
    """The device of new tensors that nobody gave one.

    >>> import flambeau as torch
    >>> torch.get_default_device()
    device(type='cpu')
    """
    return _local.device or CPU


def set_default_device(device: Any) -> None:
    """Sets the device of new tensors.

    >>> import flambeau as torch
    >>> torch.set_default_device("meta"); torch.zeros(2).device
    device(type='meta')
    >>> torch.set_default_device(None)
    """
    _local.device = None if device is None else _device(device)


_device = device
