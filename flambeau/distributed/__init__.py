"""Programs of several processes: groups of them, calls that they make together, stores. Between CPUs and machines they
talk by MPI, between GPUs by NCCL; a world of one needs neither."""

# ruff: noqa: F403 (all public names of the parts)

from . import (
    _backends,
    _calls,
    _collectives,
    _debugging,
    _group_methods,  # noqa: F401 (attaches the methods of groups)
    _groups,
    _kinds,
    _objects,
    _point_to_point,
    _reducer,
    _rendezvous,
    _stores,
    _subgroups,
    constants,
    device_mesh,
    distributed_c10d,
)
from ._backends import *
from ._calls import *
from ._calls import _coalescing_manager as _coalescing_manager
from ._collectives import *
from ._debugging import *
from ._file_store import FileStore
from ._groups import *
from ._kinds import *
from ._kinds import _make_nccl_premul_sum as _make_nccl_premul_sum
from ._objects import *
from ._point_to_point import *
from ._reducer import *
from ._rendezvous import *
from ._stores import *
from ._subgroups import *
from ._tcp_store import TCPStore
from ._work import Work
from .constants import default_pg_timeout as default_pg_timeout
from .device_mesh import DeviceMesh, init_device_mesh

_PARTS = (
    _backends, _calls, _collectives, _debugging, _groups, _kinds, _objects, _point_to_point, _reducer, _rendezvous, _stores, _subgroups,
)  # fmt: skip
__all__ = [name for part in _PARTS for name in part.__all__] + [
    "DeviceMesh", "FileStore", "TCPStore", "Work", "constants", "device_mesh", "distributed_c10d", "init_device_mesh",
]  # fmt: skip
_LATER = (
    "algorithms", "autograd", "checkpoint", "elastic", "fsdp", "launch", "launcher", "nn", "optim", "pipelining", "rpc", "run", "tensor", "utils",
)  # fmt: skip


def __getattr__(name: str) -> object:
    """Loads rarer parts at their first use."""
    if name in _LATER:
        import importlib

        try:
            return importlib.import_module("." + name, __name__)
        except ModuleNotFoundError as error:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from error
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
