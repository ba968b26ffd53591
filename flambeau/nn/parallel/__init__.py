"""Modules on several devices at once."""

from ..._core.submodules import submodule
from .data_parallel import DataParallel, data_parallel
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, scatter

__all__ = [
    "DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """`DistributedDataParallel` brings the whole of `torch.distributed`: it is loaded by those who use it."""
    if name == "DistributedDataParallel":
        from .distributed import DistributedDataParallel

        return DistributedDataParallel
    return submodule(__name__, name)
