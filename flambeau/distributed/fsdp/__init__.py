"""Parameters divided among processes: `fully_shard`, and `FullyShardedDataParallel` over it."""

# ruff: noqa: F403 (the options, in another place)

from __future__ import annotations

from . import _fully_shard, api
from ._fully_shard import *
from .api import *
from .fully_sharded_data_parallel import FullyShardedDataParallel

__all__ = [*api.__all__, *_fully_shard.__all__, "FullyShardedDataParallel"]
