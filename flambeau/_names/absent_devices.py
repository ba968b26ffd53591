"""The namespaces of devices that do not exist here: they say so, and what may be asked or told without one is answered."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any


def _constant(name: str, value: Any) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        return value() if callable(value) else value

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "What is true without such a device."
    return function


def _refusing(name: str, kind: type[Exception], message: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise kind(f"{name}: {message}")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Needs such a device, which flambeau does not have."
    return function


def _refusing_class(name: str, kind: type[Exception], message: str) -> type:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> None:
        raise kind(f"{name}: {message}")

    return type(name, (), {"__init__": refuse, "__doc__": "Needs such a device, which flambeau does not have."})


# Asked or told without a device: nothing is there, nothing is kept.
_ANSWERS: dict[str, Any] = {
    "device_count": 0, "is_available": False, "is_initialized": False, "is_bf16_supported": False,
    "is_tf32_supported": False, "empty_cache": None, "manual_seed": None, "manual_seed_all": None, "seed": None,
    "seed_all": None, "get_arch_list": list, "get_gencode_flags": "", "get_rng_state_all": list, "memory_allocated": 0,
    "memory_reserved": 0, "max_memory_allocated": 0, "max_memory_reserved": 0, "memory_stats": OrderedDict,
    "memory_stats_as_nested_dict": dict, "memory_snapshot": list, "reset_peak_memory_stats": None,
    "reset_accumulated_memory_stats": None, "set_rng_state_all": None, "record_memory_history": None,
    "_is_in_bad_fork": False,
}  # fmt: skip


def namespace(device: str, error: type[Exception], answered: str, refused: str, classes: str = "") -> dict[str, Any]:
    """Functions of a device's module by name: those that have an answer, those that need the device, and classes."""
    message = f"Torch not compiled with {device} enabled: flambeau computes on 'cpu' and 'cuda'"
    made: dict[str, Any] = {name: _constant(name, _ANSWERS[name]) for name in ("_is_in_bad_fork", *answered.split())}
    made.update({name: _refusing(name, error, message) for name in refused.split()})
    made.update({name: _refusing_class(name, error, message) for name in classes.split()})
    return made
