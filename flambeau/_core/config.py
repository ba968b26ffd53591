"""Switches that programs set and read: determinism, precision of products, repeated warnings."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from .allocation import not_planned


class _Config:
    __slots__ = (
        "deterministic", "fill_uninitialized_memory", "interop_threads", "matmul_precision", "warn_always", "warn_only",
    )  # fmt: skip

    def __init__(self) -> None:
        self.deterministic = self.warn_only = self.warn_always = False
        self.fill_uninitialized_memory = True  # in deterministic mode
        self.matmul_precision = "highest"
        self.interop_threads = 1


config = _Config()


when_changed: list[Callable[[], None]] = []  # called when the choice of algorithms changes


def nondeterministic(name: str) -> None:
    """What an operation without a deterministic form calls: raises or warns if one is demanded."""
    not_planned()  # somebody may demand it later
    if not config.deterministic:
        return
    message = (
        f"{name} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True)': "
        "turn it off for this operation, or give warn_only=True."
    )
    if not config.warn_only:
        raise RuntimeError(message)
    warnings.warn(message, stacklevel=4)


_said: set[str] = set()


def deprecated(name: str, other: str, once: bool = True) -> None:
    """What an old function calls: warns that another one takes its place, once or (as set) always."""
    if once and name in _said and not config.warn_always:
        return
    _said.add(name)
    warnings.warn(
        f"torch.{name} is deprecated in favor of {other} and will be removed in a future PyTorch release.", stacklevel=4
    )


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Asks for operations that give the same result every time; those that might not, as in PyTorch, raise.

    Memory that is not filled is filled then (see `torch.utils.deterministic`).

    >>> import flambeau as torch
    >>> torch.use_deterministic_algorithms(True); torch.are_deterministic_algorithms_enabled()
    True
    >>> torch.use_deterministic_algorithms(False)
    """
    for name, given in (("mode' (position 1)", mode), ("warn_only'", warn_only)):
        if given.__class__ is not bool:
            raise TypeError(
                f"_set_deterministic_algorithms(): argument '{name} must be bool, not {type(given).__name__}"
            )
    if (mode, warn_only) != (config.deterministic, config.warn_only):
        config.deterministic, config.warn_only = mode, warn_only
        for tell in when_changed:
            tell()


def are_deterministic_algorithms_enabled() -> bool:
    """Whether deterministic operations were asked for."""
    return config.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether operations that are not deterministic only warn."""
    return config.warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """The same switch as a level: 0 "default", 1 "warn", 2 "error"."""
    levels: dict[Any, int] = {"default": 0, "warn": 1, "error": 2, 0: 0, 1: 1, 2: 2}
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if debug_mode not in levels:
        raise RuntimeError(
            f"invalid value of debug_mode: {debug_mode!r} is none of 'default', 'warn', 'error', 0, 1, 2"
        )
    level = levels[debug_mode]
    use_deterministic_algorithms(level > 0, warn_only=level == 1)


def get_deterministic_debug_mode() -> int:
    """The level set by `set_deterministic_debug_mode`."""
    return (1 if config.warn_only else 2) if config.deterministic else 0


def set_float32_matmul_precision(precision: str) -> None:
    """How exactly float32 matrices are multiplied: "highest", "high" or "medium". The CPU always uses the highest."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f"{precision!r} is not one of 'highest', 'high', 'medium'")
    config.matmul_precision = precision


def get_float32_matmul_precision() -> str:
    """The precision set by `set_float32_matmul_precision`."""
    return config.matmul_precision


def set_flush_denormal(mode: bool) -> bool:
    """Whether tiny numbers could be made zero: no, kernels keep them, and False says so."""
    return False


def set_warn_always(b: bool, /) -> None:
    """Whether warnings are repeated where they otherwise come once."""
    config.warn_always = bool(b)


def is_warn_always_enabled() -> bool:
    """The switch set by `set_warn_always`."""
    return config.warn_always


def set_num_interop_threads(n: int) -> None:
    """Threads between operations; operations run one after another here, so that it is only remembered."""
    config.interop_threads = checked_count("set_num_interop_threads", n)


def checked_count(name: str, count: Any) -> int:
    """A number of threads, as PyTorch takes it: positive, and not more than 32 bits can say."""
    if not isinstance(count, int) or isinstance(count, bool):
        raise RuntimeError(f"{name} expects an int, but got {type(count).__name__}")
    if not -(1 << 31) <= count < 1 << 31:
        raise ValueError(f"Overflow when unpacking long: {name} cannot take {str(count)[:30]}")
    if count <= 0:
        raise RuntimeError(f"{name} expects a positive integer")
    return count


def get_num_interop_threads() -> int:
    """The number set by `set_num_interop_threads`."""
    return config.interop_threads


def sym_int(a: Any) -> int:
    """A size as an integer, cut off towards zero."""
    return int(a)


def sym_float(a: Any) -> float:
    """A size as a float."""
    return float(a)


def sym_not(a: Any) -> bool:
    """Not a."""
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """The larger of two sizes; a float if one is."""
    kind = float if isinstance(a, float) or isinstance(b, float) else type(a)
    return kind(max(a, b))


def sym_min(a: Any, b: Any) -> Any:
    """The smaller of two sizes; a float if one is."""
    kind = float if isinstance(a, float) or isinstance(b, float) else type(a)
    return kind(min(a, b))


def sym_sum(args: Any) -> Any:
    """The sum of sizes."""
    return sum(args)


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """t if b else f."""
    return t if b else f


def sym_sqrt(a: Any) -> float:
    """The square root of a size."""
    return float(a) ** 0.5


class OutOfMemoryError(RuntimeError):
    """A device has no memory left for a tensor."""


def memory_problem(error: Exception) -> RuntimeError | None:
    """The refusal of an array that is too large, by NumPy or CuPy, as PyTorch's kind of error; None for any other error."""
    if isinstance(error, MemoryError):
        if error.__class__.__module__.startswith("cupy"):
            return OutOfMemoryError(f"CUDA out of memory. {error}")
        return RuntimeError(f"DefaultCPUAllocator: can't allocate memory: {error}")
    if "array is too big" in str(error) or "Maximum allowed" in str(error):
        return RuntimeError(f"Storage size calculation overflowed: {error}")
    return None


class AcceleratorError(RuntimeError):
    """A device reported an error."""
