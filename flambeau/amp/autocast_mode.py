"""`autocast` as a context and a decorator, and the switches behind it."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from .._backend.placement import cuda_problem
from .._core.dtypes import FLOATING, bfloat16, dtype, float16, float64
from .._interception.autocast import KINDS, kind_of, settings
from .._tensor import Tensor

__all__ = [
    "autocast", "autocast_decrement_nesting", "autocast_increment_nesting", "custom_bwd", "custom_fwd",
    "is_autocast_available",
]  # fmt: skip


def is_autocast_available(device_type: str) -> bool:
    """Whether a type of device has autocast.

    >>> is_autocast_available("cpu")
    True
    """
    if not isinstance(device_type, str):
        raise TypeError(
            f"is_autocast_available(): argument 'device_type' must be str, not {type(device_type).__name__}"
        )
    return device_type in KINDS


class autocast:
    """Inside, products and convolutions run in a 16-bit type, and what needs precision in float32.

    >>> import flambeau as torch
    >>> with torch.autocast("cpu"):
    ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
    torch.bfloat16
    """

    def __init__(
        self, device_type: str, dtype: dtype | None = None, enabled: bool = True, cache_enabled: bool | None = None
    ):
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device = kind_of(device_type)
        now = settings()
        self.fast_dtype = now.dtypes[self.device] if dtype is None else dtype
        self._cache_enabled = now.cached if cache_enabled is None else cache_enabled
        self._enabled = enabled
        if enabled and self.fast_dtype not in (bfloat16, float16):
            warnings.warn(
                f"In {self.device} autocast, but the target dtype is not supported. Disabling autocast: "
                f"it takes bfloat16 or float16, not {self.fast_dtype}",
                stacklevel=2,
            )
            self._enabled = False
        elif enabled and self.device == "cuda" and cuda_problem() is not None:
            warnings.warn("User provided device_type of 'cuda', but CUDA is not available. Disabling", stacklevel=2)
            self._enabled = False

    def __enter__(self) -> autocast:
        now = settings()
        self._before = (now.cached, now.on[self.device], now.dtypes[self.device])
        now.cached = self._cache_enabled
        now.dtypes[self.device] = self.fast_dtype
        now.switch(self.device, self._enabled)
        now.nesting += 1
        return self

    def __exit__(self, *error: Any) -> None:
        now = settings()
        now.nesting -= 1
        if not now.nesting:
            now.copies.clear()
        now.cached, on, now.dtypes[self.device] = self._before
        now.switch(self.device, on)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            with type(self)._again(self):
                return function(*args, **named)

        return call

    @staticmethod
    def _again(given: autocast) -> autocast:
        """A fresh context with the same settings: functions may call themselves."""
        made = object.__new__(autocast)
        made.__dict__.update(given.__dict__)
        return made


# -- switches ----------------------------------------------------------------------------------------------------


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether autocast is on in this thread for a type of device (cuda if none is named)."""
    return settings().on[kind_of(device_type or "cuda")]


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Turns autocast on or off in this thread for a type of device; with one argument, for cuda."""
    if enabled is None:
        device_type, enabled = "cuda", device_type
    settings().switch(kind_of(device_type), bool(enabled))


def get_autocast_dtype(device_type: str) -> dtype:
    """The 16-bit type that autocast uses on a type of device."""
    return settings().dtypes[kind_of(device_type)]


def set_autocast_dtype(device_type: str, dtype: dtype) -> None:
    """Sets the 16-bit type that autocast uses on a type of device, in this thread."""
    settings().dtypes[kind_of(device_type)] = dtype
    settings().tell()


def is_autocast_cpu_enabled() -> bool:
    """Whether autocast is on in this thread for the CPU."""
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Turns autocast on or off in this thread for the CPU."""
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> dtype:
    """The 16-bit type that autocast uses on the CPU."""
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: dtype) -> None:
    """Sets the 16-bit type that autocast uses on the CPU, in this thread."""
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> dtype:
    """The 16-bit type that autocast uses on GPUs."""
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: dtype) -> None:
    """Sets the 16-bit type that autocast uses on GPUs, in this thread."""
    set_autocast_dtype("cuda", dtype)


def is_autocast_cache_enabled() -> bool:
    """Whether copies of parameters in the 16-bit type are kept until the outermost context ends."""
    return settings().cached


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Says whether copies of parameters in the 16-bit type are kept for further uses."""
    settings().cached = bool(enabled)
    settings().tell()


def clear_autocast_cache() -> None:
    """Forgets the copies of parameters in the 16-bit type."""
    settings().copies.clear()


def autocast_increment_nesting() -> int:
    """Notes that a context begins; gives how many are open in this thread."""
    settings().nesting += 1
    return settings().nesting


def autocast_decrement_nesting() -> int:
    """Notes that a context ends; gives how many are open in this thread."""
    settings().nesting -= 1
    return settings().nesting


# -- functions with their own derivative ---------------------------------------------------------------------------


def _cast(value: Any, kind: str, target: dtype) -> Any:
    if isinstance(value, Tensor):
        eligible = value.dtype.category == FLOATING and value.dtype is not float64 and value.device.type == kind
        return value.to(target) if eligible else value
    if isinstance(value, dict):
        return {_cast(k, kind, target): _cast(v, kind, target) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        parts = [_cast(v, kind, target) for v in value]
        return type(value)._make(parts) if hasattr(value, "_make") else type(value)(parts)
    return value


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: dtype | None = None) -> Any:
    """For `forward` of an autograd function: runs it in the state of autocast around the call, or, with `cast_inputs`,
    with its tensors in that type and autocast off."""
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    kind = kind_of(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args: Any, **named: Any) -> Any:
        context = args[0]
        context._dtype = get_autocast_dtype(kind)
        on = is_autocast_enabled(kind)
        if cast_inputs is None or not on:
            context._fwd_used_autocast = on
            return fwd(*args, **named)
        context._fwd_used_autocast = False
        with autocast(kind, enabled=False):
            return fwd(*_cast(args, kind, cast_inputs), **_cast(named, kind, cast_inputs))

    return forward


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """For `backward` of an autograd function whose forward has `custom_fwd`: runs it in the same state."""
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    kind = kind_of(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(*args: Any, **named: Any) -> Any:
        with autocast(kind, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **named)

    return backward
