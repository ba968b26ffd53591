"""Parameters divided among processes: names and options only, see `FullyShardedDataParallel`."""

# ruff: noqa: F403 (the options, in another place)

from __future__ import annotations

from typing import Any

from . import api
from .api import *
from .fully_sharded_data_parallel import FullyShardedDataParallel

__all__ = [
    *api.__all__,
    "CPUOffloadPolicy",
    "FSDPModule",
    "FullyShardedDataParallel",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "fully_shard",
]


class MixedPrecisionPolicy:
    """The dtypes to compute and to exchange in."""

    def __init__(
        self,
        param_dtype: Any = None,
        reduce_dtype: Any = None,
        output_dtype: Any = None,
        cast_forward_inputs: bool = True,
    ):
        self.param_dtype, self.reduce_dtype = param_dtype, reduce_dtype
        self.output_dtype, self.cast_forward_inputs = output_dtype, cast_forward_inputs


class OffloadPolicy:
    """Parameters stay where they are."""


class CPUOffloadPolicy(OffloadPolicy):
    """Parameters rest in the memory of the CPU."""

    def __init__(self, pin_memory: bool = True):
        self.pin_memory = pin_memory


class FSDPModule:
    """What modules become by `fully_shard`."""


def fully_shard(module: Any, **options: Any) -> Any:
    """Not available: parameters divided among processes."""
    raise NotImplementedError(
        "fully_shard: there is one process, which has to hold all parameters; use the module itself"
    )
