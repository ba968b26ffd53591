"""`FullyShardedDataParallel`, which needs several processes and is not implemented; its options are here."""

# ruff: noqa: F403 (the options, in another place)

from __future__ import annotations

from typing import Any

from ...nn.modules.module import Module
from .api import *

__all__ = ["FullyShardedDataParallel"]  # noqa: RUF100


class FullyShardedDataParallel(Module):
    """Not available: parameters divided among processes. In a world of one, use the module itself."""

    def __init__(self, module: Module, *args: Any, **kwargs: Any):
        raise NotImplementedError(
            "FullyShardedDataParallel: there is one process, which has to hold all parameters; use the module itself or "
            "torch.nn.parallel.DistributedDataParallel"
        )
