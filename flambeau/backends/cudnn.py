"""Switches of cuDNN, which computes convolutions and attention on a GPU where it is installed; other kernels do not depend on them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from .._backend.cuda import cuda
from .._backend.cudnn import settings
from .._backend.placement import cuda_problem
from .._ops.layers.convolution.description import way
from ._flags import Precision, a_bool, a_precision, anything, for_a_while, set_all, switch, with_switches

conv, rnn = Precision("tf32"), Precision("tf32")


def is_available() -> bool:
    """Whether there is a GPU that computes, and cuDNN."""
    return cuda_problem() is None and cuda.cudnn.library is not None


def version() -> int | None:
    """The version of the library as one number; None where it is not used."""
    return cuda.cudnn.version() if is_available() else None


def is_acceptable(tensor: Any) -> bool:
    """Whether a tensor is on a GPU, in a floating type."""
    return bool(tensor.is_cuda and tensor.is_floating_point())


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str | None = None,
    _depthwise_kernel: str | None = None,
) -> tuple[Any, ...]:
    """Sets several switches and gives their earlier values."""
    wanted = {
        "enabled": _enabled, "benchmark": _benchmark, "benchmark_limit": _benchmark_limit,
        "deterministic": _deterministic, "allow_tf32": _allow_tf32, "fp32_precision": _fp32_precision,
    }  # fmt: skip
    return set_all(__name__, wanted)


def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
    depthwise_kernel: str = "auto",
) -> AbstractContextManager[None]:
    """Sets the switches inside a `with` block.

    >>> import flambeau as torch
    >>> with torch.backends.cudnn.flags(enabled=True, deterministic=True):
    ...     torch.backends.cudnn.deterministic
    True
    """
    wanted = {
        "enabled": enabled, "benchmark": benchmark, "benchmark_limit": benchmark_limit, "deterministic": deterministic,
        "allow_tf32": allow_tf32, "fp32_precision": fp32_precision,
    }  # fmt: skip
    return for_a_while(__name__, wanted)


def _set(name: str, value: Any) -> None:
    if getattr(settings, name) != value:
        setattr(settings, name, value)
        way.cache_clear()  # whether the library is used was decided for each convolution
    cuda.switched()


with_switches(
    __name__, enabled=switch("enabled", True, a_bool, _set), benchmark=switch("benchmark", False, a_bool, _set),
    deterministic=switch("deterministic", False, a_bool, _set), allow_tf32=switch("allow_tf32", True, a_bool, _set),
    benchmark_limit=switch("benchmark_limit", None, anything), fp32_precision=switch("fp32_precision", "none", a_precision),
)  # fmt: skip
