"""Programs of several processes. For now the world has one: everything works as PyTorch's does for world_size=1, so that
programs written for many run on one."""

# ruff: noqa: F403 (all public names of the parts)

from . import _collectives, _debugging, _groups, _kinds, _stores, constants, device_mesh, distributed_c10d
from ._collectives import *
from ._debugging import *
from ._file_store import FileStore
from ._groups import *
from ._kinds import *
from ._stores import *
from ._tcp_store import TCPStore
from .constants import default_pg_timeout as default_pg_timeout
from .device_mesh import DeviceMesh, init_device_mesh

__all__ = [
    *_collectives.__all__, *_debugging.__all__, *_groups.__all__, *_kinds.__all__, *_stores.__all__, "DeviceMesh", "FileStore",
    "TCPStore", "constants", "device_mesh", "distributed_c10d", "init_device_mesh", "reduce_op",
]  # fmt: skip
_LATER = ("algorithms", "checkpoint", "elastic", "fsdp", "nn", "optim", "rpc", "tensor", "utils")


class _reduce_op:
    """The older name of `ReduceOp`."""

    def __getattr__(self, name: str) -> object:
        return getattr(_kinds.ReduceOp, name)


reduce_op = _reduce_op()


def __getattr__(name: str) -> object:
    """Loads rarer parts at their first use."""
    if name in _LATER:
        import importlib

        try:
            return importlib.import_module("." + name, __name__)
        except ModuleNotFoundError as error:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from error
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
