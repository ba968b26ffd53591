"""The default stream of random numbers: seeds, states and forks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ._core.state import CUDA
from ._ops.making.generator import Generator, default_generator, default_of, forked, has_gpu
from ._tensor import Tensor


def manual_seed(seed: int) -> Generator:
    """Starts the streams of all devices anew: the same seed gives the same numbers.

    >>> import flambeau as torch
    >>> torch.manual_seed(0).initial_seed()
    0
    """
    seed = int(seed)
    default_generator.manual_seed(seed)
    if has_gpu():
        default_of(CUDA).manual_seed(seed)
    return default_generator


def seed() -> int:
    """Starts a stream that nobody knows beforehand, and returns its seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default stream."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """Where the default stream is, as a tensor of bytes."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Continues the default stream where `get_rng_state` was called."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(
    devices: Any = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cuda",
) -> Iterator[None]:
    """Inside, random numbers may be drawn (and seeds set) without moving the stream outside."""
    with forked() if enabled else contextlib.nullcontext():
        yield


__all__ = ["fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]


def thread_safe_generator() -> None:
    """The random generator of a worker thread of a data loader; None outside of one."""
    return None
